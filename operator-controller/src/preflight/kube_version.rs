//! Does the cluster's Kubernetes suit a bundle that names a lowest version?

use kube::Client;
use olm_runtime::{api_text, bounded};

/// Compares the server's version with the lowest one the bundle works with.
///
/// # Errors
/// `Ok(Err(_))`: the server is too old, in words with both versions. `Err(_)`: the server did not answer.
pub(crate) async fn check(client: &Client, lowest: &str) -> Result<Result<(), String>, String> {
    let info = bounded(client.apiserver_version()).await.map_err(|e| api_text(&e))?;
    Ok(suits(&info.git_version, lowest))
}

fn suits(server: &str, lowest: &str) -> Result<(), String> {
    match (numbers(server), numbers(lowest)) {
        (Some(has), Some(wants)) if has < wants => Err(format!(
            "the bundle needs Kubernetes {lowest} or later, the cluster runs {server}: update the cluster or choose an older version of the operator"
        )),
        // A text that is no version asks for nothing, as upstream, which never checks it.
        _ => Ok(()),
    }
}

/// Major, minor and patch; what is not given is zero, and what follows them (`-rc.1`, `+build`) is left out.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let core = version.trim().trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = [0; 3];
    let mut parts = core.split('.');
    for number in &mut numbers {
        match parts.next() {
            Some(part) => *number = part.parse().ok()?,
            None => break,
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_older_server_is_refused() {
        for (server, lowest, fits) in [
            ("v1.36.3", "1.36.3", true),
            ("v1.36.3", "1.25", true),
            ("v1.36.3", "v1.36.4", false),
            ("v1.30.1-eks-abc", "1.31.0", false),
            ("v1.31.0+k3s1", "1.31.0", true),
            ("v1.36.3", "", true),
            ("v1.36.3", "soon", true),
        ] {
            assert_eq!(suits(server, lowest).is_ok(), fits, "{server} for {lowest}");
        }
    }

    #[test]
    fn both_versions_are_told() {
        let told = suits("v1.30.0", "1.31.0").unwrap_err();
        assert!(told.contains("1.31.0") && told.contains("v1.30.0"), "{told}");
    }
}
