//! Leadership: two leases, one process.

use olm_runtime::LeaseLost;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{LEASE, Operator};
use crate::content::Content;

impl Operator {
    /// Leads when elected.
    ///
    /// There are two campaigns. Extensions and revisions are the first lease's; catalogd's lease says who looks at
    /// catalogs' sources. While another process holds that one, upstream's catalogd for instance, the catalogs here
    /// follow, and everything else goes on. It is campaigned for only with the first one held, so that one process has
    /// both; whichever is lost, the process ends.
    ///
    /// # Errors
    /// A lease was lost.
    pub(super) async fn campaign(
        &self,
        leads: &watch::Sender<bool>,
        catalogs_ended: &CancellationToken,
    ) -> Result<(), LeaseLost> {
        let shutdown = &self.process.shutdown;
        let candidate = |lease: &str| self.process.elector(lease, self.config.terms);
        let first_held = CancellationToken::new();
        let (extensions, catalogs) = (candidate(LEASE), candidate(catalogd::LEASE));
        let first = async {
            let led = extensions.lead(shutdown.clone(), |stop| {
                first_held.cancel();
                Box::pin(self.lead(stop))
            });
            let led = led.await;
            // Whatever ended it ends the other one.
            shutdown.cancel();
            led
        };
        let second = async {
            if let Content::Remote(_) = self.loops.content {
                return Ok(());
            }
            let set_leader = |leader| {
                leads.send_replace(leader);
            };
            catalogd::campaign_beside(&first_held, &catalogs, set_leader, catalogs_ended, shutdown).await
        };
        let (first, second) = tokio::join!(first, second);
        first.and(second)
    }
}
