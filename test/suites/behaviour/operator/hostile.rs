//! Hostile input under the memory limit of the Deployment.

use anyhow::Result;
use olm_test::tools::hostile;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bundles_and_catalogs_at_once_leave_the_others_alone() -> Result<()> {
    if let Some(figures) = Box::pin(hostile::run()).await? {
        println!("{figures:?}");
    }
    Ok(())
}
