//! Which permissions of the programs' tables their requests use, over the runs of all suites.
//!
//! With `OLM_TEST_PERMISSIONS` naming a folder, the clusters' audit logs hold the reads of the programs' ServiceAccounts too,
//! and their requests are stored in that folder when a cluster ends. `olm-permissions-used` compares them with the tables: every
//! request is covered by a row, and each permission of each row was used.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
};

use operator_controller::{CATALOGD_PERMISSIONS, CLASSIC_PERMISSIONS, PERMISSIONS, Permission, Scope};
use serde::{Deserialize, Serialize};

use crate::{catalogd, classic, operator::USER, prelude::*};

/// Names the folder.
pub const FOLDER: &str = "OLM_TEST_PERMISSIONS";

/// Extension of the files that name clusters which did not end yet.
const EXPECTED: &str = "expected";
/// For the end of all clusters: logs of some hundred megabytes are read then.
const ENDS: Duration = Duration::from_mins(5);
/// Between two looks for it.
const LOOKS: Duration = Duration::from_millis(200);

/// Writes of everybody, and what the programs read.
pub(crate) const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata","verbs":["create","update","patch","delete","deletecollection"]},
{"level":"Metadata","users":["system:serviceaccount:olmv1-system:operator-controller-controller-manager",
"system:serviceaccount:olmv1-system:catalogd-controller-manager","system:serviceaccount:olm:olm-operator-serviceaccount"]},{"level":"None"}]}"#;

/// Reviews of oneself, which every user may ask for.
const OF_ONESELF: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];

/// What the variant for OpenShift lets both programs read beside their tables, by a Role of its own: resource, namespace
/// and name of the cluster's pull secret.
const OF_OPENSHIFT: (&str, &str, &str) = ("secrets", "openshift-config", "pull-secret");

/// Permissions that no request of the suites shows, and why they are granted: where they hold, resource (or its
/// end), verbs, reason.
const WITHOUT_REQUEST: [(Scope, &str, &str, &str); 6] = [
    (
        Scope::Cluster,
        "/finalizers",
        "update",
        "checked by the admission plugin OwnerReferencesPermissionEnforcement when an owner reference is set",
    ),
    (
        Scope::Cluster,
        "clusterextensions",
        "update",
        "checked by the admission policy that requires it to write revisions of an extension",
    ),
    (
        Scope::Cluster,
        "clusterextensions/revisions",
        "own",
        "checked by the admission policy that lets only the controller make revisions; no request has this verb",
    ),
    (
        Scope::Cluster,
        "roles",
        "bind escalate",
        "checked by the API server when roles and bindings are written",
    ),
    (Scope::Cluster, "endpointslices", "delete", "for another family of addresses, which is immutable"),
    (
        Scope::SystemNamespace,
        "serviceaccounts",
        "get list watch",
        "for the pull secrets of its own ServiceAccount, which a program has in a Pod only; unit tests of catalogd show it",
    ),
];

/// Purpose of the rows about kinds that are watched for all extensions.
const WATCHED_OBJECTS: &str = "notice changes to objects of extensions";
/// Purpose of the rows about kinds that bundles of OLM Classic may hold.
const PLANNED_OBJECTS: &str = "make what an InstallPlan holds";
/// Why a permission on a kind may go without use.
const OF_OBJECTS: &str = "for kinds that bundles may contain; not all of them are in the tests";

/// A program with a ServiceAccount and a table of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// operator-controller.
    OperatorController,
    /// A catalogd on its own.
    Catalogd,
    /// olm-classic.
    Classic,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OperatorController, Self::Catalogd, Self::Classic];

    /// The user that it is known as.
    pub fn user(self) -> &'static str {
        match self {
            Self::OperatorController => USER,
            Self::Catalogd => catalogd::USER,
            Self::Classic => classic::USER,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OperatorController => "operator-controller",
            Self::Catalogd => "catalogd",
            Self::Classic => "olm-classic",
        }
    }

    fn namespace(self) -> &'static str {
        match self {
            Self::OperatorController | Self::Catalogd => SYSTEM_NAMESPACE,
            Self::Classic => classic::NAMESPACE,
        }
    }

    fn permissions(self) -> &'static [Permission] {
        match self {
            Self::OperatorController => &PERMISSIONS,
            Self::Catalogd => &CATALOGD_PERMISSIONS,
            Self::Classic => &CLASSIC_PERMISSIONS,
        }
    }

    fn of_user(user: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.user() == user)
    }
}

/// A request of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Request {
    /// The program.
    pub by: Subject,
    /// API group, empty for the core group.
    pub group: String,
    /// Resource, with its subresource if there is one: `clusterextensions/status`.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// Whether it was about the namespace of the program.
    pub in_system_namespace: bool,
    /// Whether the authorizers refused it.
    pub forbidden: bool,
}

/// One permission: a verb on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerbOnResource {
    /// Whether it holds in the namespace of the program only.
    pub in_system_namespace: bool,
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Resource, with its subresource if there is one.
    pub resource: &'static str,
    /// The verb.
    pub verb: &'static str,
}

impl VerbOnResource {
    /// All permissions of a program.
    pub fn of(subject: Subject) -> Vec<Self> {
        let of_row = |row: &'static Permission| {
            let of_resource = move |resource: &'static String| {
                row.verbs.iter().map(move |verb| Self {
                    in_system_namespace: row.scope == Scope::SystemNamespace,
                    group: &row.group,
                    resource,
                    verb,
                })
            };
            row.resources.iter().flat_map(of_resource).collect::<Vec<_>>()
        };
        subject.permissions().iter().flat_map(of_row).collect()
    }

    fn covers(&self, request: &Request) -> bool {
        let is = |granted: &str, asked: &str| granted == "*" || granted == asked;
        (request.in_system_namespace || !self.in_system_namespace)
            && is(self.verb, &request.verb)
            && is(self.group, &request.group)
            && is(self.resource, &request.resource)
    }

    /// Whether it serves to notice changes to objects of extensions, or to make what the bundles of OLM Classic hold.
    fn is_for_objects(&self) -> bool {
        let of_this = |row: &&Permission| {
            row.group == self.group && row.resources.iter().any(|one| one == self.resource)
        };
        let is_for =
            |rows: &[Permission], why: &str| rows.iter().filter(of_this).any(|row| row.purpose == why);
        let is_watched = ["list", "watch"].contains(&self.verb) && is_for(&PERMISSIONS, WATCHED_OBJECTS);
        !self.in_system_namespace && (is_watched || is_for(&CLASSIC_PERMISSIONS, PLANNED_OBJECTS))
    }

    /// Why it is held although no request uses it.
    pub fn without_request(&self) -> Option<&'static str> {
        let of_this = |(scope, end, verbs, _): &&(Scope, &str, &str, &'static str)| {
            (*scope == Scope::SystemNamespace) == self.in_system_namespace
                && self.resource.ends_with(end)
                && verbs.split(' ').any(|verb| verb == self.verb)
        };
        let reason = WITHOUT_REQUEST.iter().find(of_this).map(|(.., why)| *why);
        reason.or_else(|| self.is_for_objects().then_some(OF_OBJECTS))
    }
}

/// The requests of runs beside the table.
#[derive(Debug, Default)]
pub struct Report {
    /// How often each permission was used.
    pub used: BTreeMap<VerbOnResource, u64>,
    /// Requests that no row covers, with their number. They are forbidden, unless more was granted than the table has.
    pub outside: BTreeMap<Request, u64>,
    /// Requests that a row covers and that were forbidden all the same: some tests revoke permissions.
    pub revoked: BTreeMap<Request, u64>,
}

impl Report {
    /// Compares the requests of one program with its table.
    pub fn new(subject: Subject, requests: &BTreeMap<Request, u64>) -> Self {
        let permissions = VerbOnResource::of(subject);
        let requests = requests.iter().filter(|(request, _)| request.by == subject);
        // The variant in which olm-classic serves ClusterCatalogs grants it what catalogd has.
        let of_variant =
            if subject == Subject::Classic { VerbOnResource::of(Subject::Catalogd) } else { Vec::new() };
        let mut report =
            Self { used: permissions.iter().map(|permission| (*permission, 0)).collect(), ..Self::default() };
        for (request, count) in requests {
            if OF_ONESELF.contains(&request.resource.as_str()) {
                continue;
            }
            // The narrowest row: what it gives is not what a wider one is for.
            let covering = permissions.iter().filter(|permission| permission.covers(request));
            let narrowest = covering
                .max_by_key(|permission| (permission.in_system_namespace, permission.resource != "*"));
            match narrowest {
                None if of_variant.iter().any(|permission| permission.covers(request)) => {}
                None => *report.outside.entry(request.clone()).or_default() += count,
                Some(_) if request.forbidden => {
                    *report.revoked.entry(request.clone()).or_default() += count;
                }
                Some(permission) => *report.used.entry(*permission).or_default() += count,
            }
        }
        report
    }

    /// Permissions that no request used, without a reason.
    pub fn unused(&self) -> Vec<VerbOnResource> {
        let unused = self
            .used
            .iter()
            .filter(|(permission, count)| **count == 0 && permission.without_request().is_none());
        unused.map(|(permission, _)| *permission).collect()
    }
}

/// The folder in which requests are kept, if they are.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Notes that there is a cluster with this folder, whose requests are to be kept when it ends.
pub(crate) fn expect(directory: &Path) -> Result<()> {
    let Some(folder) = folder() else { return Ok(()) };
    fs::create_dir_all(&folder)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::write(folder.join(name).with_extension(EXPECTED), directory.display().to_string())?;
    Ok(())
}

/// Waits until every cluster that was noted in a folder is gone: a supervisor ends the last ones when its test process has
/// ended already.
///
/// # Errors
/// One is still there after some minutes.
pub fn wait_for_ends(folder: &Path) -> Result<()> {
    let start = Instant::now();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != EXPECTED) {
            continue;
        }
        let directory = PathBuf::from(fs::read_to_string(&path)?);
        while directory.exists() {
            ensure!(start.elapsed() < ENDS, "the cluster in {} does not end", directory.display());
            std::thread::sleep(LOOKS);
        }
    }
    Ok(())
}

/// Keeps what the audit log of a cluster's folder says, if that is wanted and there is one. Complains on standard
/// error only: this is the end of a cluster.
pub(crate) fn keep(directory: &Path) {
    let (Some(folder), log) = (folder(), directory.join("audit.log")) else { return };
    if !log.is_file() {
        return;
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let kept = distilled(&log).and_then(|requests| {
        fs::create_dir_all(&folder)?;
        let lines: Vec<(&Request, &u64)> = requests.iter().collect();
        fs::write(folder.join(format!("{name}.json")), serde_json::to_string(&lines)?)?;
        Ok(())
    });
    if let Err(error) = kept {
        let _ = writeln!(std::io::stderr(), "the permissions used in {}: {error:#}", log.display());
    }
}

/// What was kept in a folder, all clusters together.
pub fn kept(folder: &Path) -> Result<(usize, BTreeMap<Request, u64>)> {
    let (mut clusters, mut requests) = (0, BTreeMap::new());
    if !folder.is_dir() {
        return Ok((clusters, requests));
    }
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXPECTED) {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let lines: Vec<(Request, u64)> =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        clusters += 1;
        for (request, count) in lines {
            *requests.entry(request).or_default() += count;
        }
    }
    Ok((clusters, requests))
}

/// The requests of the programs' ServiceAccounts in an audit log, each once with its number.
fn distilled(log: &Path) -> Result<BTreeMap<Request, u64>> {
    let mut requests = BTreeMap::new();
    let file = File::open(log).with_context(|| format!("opening {}", log.display()))?;
    for line in BufReader::new(file).lines() {
        let line = line?;
        // The last line may have been cut when the API server ended.
        let is_ours = Subject::ALL.iter().any(|subject| line.contains(subject.user()));
        let Some(event) = is_ours.then(|| serde_json::from_str::<Value>(&line).ok()).flatten() else {
            continue;
        };
        let Some(request) = request(&event) else { continue };
        // Who applies what is not there needs both verbs.
        if request.verb == "patch" && event["responseStatus"]["code"] == 201 {
            *requests.entry(Request { verb: "create".to_owned(), ..request.clone() }).or_default() += 1;
        }
        *requests.entry(request).or_default() += 1;
    }
    Ok(requests)
}

/// What an event says, if it is a program's and about a resource.
fn request(event: &Value) -> Option<Request> {
    let by = Subject::of_user(event["user"]["username"].as_str()?)?;
    if !event["impersonatedUser"].is_null() {
        return None;
    }
    // A watch is logged twice, when it begins and when it ends.
    if event["verb"] == "watch" && event["stage"] != "ResponseStarted" {
        return None;
    }
    let object = event.get("objectRef")?;
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let subresource = object["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
    let reads = ["get", "list", "watch"].iter().any(|verb| event["verb"] == *verb);
    if reads && (text("resource"), text("namespace"), text("name")) == OF_OPENSHIFT {
        return None;
    }
    Some(Request {
        by,
        group: text("apiGroup").to_owned(),
        resource: format!("{}{subresource}", text("resource")),
        verb: event["verb"].as_str()?.to_owned(),
        in_system_namespace: text("namespace") == by.namespace(),
        forbidden: event["annotations"]["authorization.k8s.io/decision"] == "forbid",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(verb: &str, group: &str, resource: &str, namespace: &str) -> Value {
        json!({
            "verb": verb, "stage": "ResponseComplete", "user": {"username": USER},
            "objectRef": {"apiGroup": group, "resource": resource, "namespace": namespace},
            "annotations": {"authorization.k8s.io/decision": "allow"},
        })
    }

    fn report(events: &[Value]) -> Report {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for event in events {
            writeln!(file, "{event}").unwrap();
        }
        Report::new(Subject::OperatorController, &distilled(file.path()).unwrap())
    }

    fn used(report: &Report, resource: &str, verb: &str) -> Vec<(bool, u64)> {
        let of = report
            .used
            .iter()
            .filter(|(permission, _)| permission.resource == resource && permission.verb == verb);
        of.map(|(permission, count)| (permission.in_system_namespace, *count)).collect()
    }

    #[test]
    fn each_request_uses_the_narrowest_row_that_covers_it() {
        let mut created = event("patch", "olm.operatorframework.io", "clusterobjectsets", "");
        created["responseStatus"] = json!({"code": 201});
        let report = report(&[
            event("list", "", "secrets", SYSTEM_NAMESPACE),
            event("list", "", "secrets", "elsewhere"),
            event("list", "", "configmaps", "elsewhere"),
            event("create", "", "serviceaccounts/token", "elsewhere"),
            created,
        ]);
        assert_eq!(used(&report, "secrets", "list"), [(true, 1)]);
        assert_eq!(used(&report, "configmaps", "list"), [(false, 1)]);
        assert_eq!(used(&report, "serviceaccounts/token", "create"), [(false, 1)]);
        assert_eq!(used(&report, "clusterobjectsets", "patch"), [(false, 1)]);
        assert_eq!(used(&report, "clusterobjectsets", "create"), [(false, 1)]);
        assert_eq!(report.outside.len(), 1, "{:?}", report.outside);
        assert!(report.unused().iter().any(|permission| permission.resource == "leases"));
        assert!(!report.unused().iter().any(|permission| permission.resource.ends_with("/finalizers")));
    }

    #[test]
    fn the_pull_secret_of_openshift_is_for_reading_alone() {
        let named = |verb: &str, name: &str| {
            let mut event = event(verb, "", "secrets", "openshift-config");
            event["objectRef"]["name"] = json!(name);
            event
        };
        assert!(report(&[named("get", "pull-secret"), named("watch", "pull-secret")]).outside.is_empty());
        for outside in [named("get", "another"), named("delete", "pull-secret")] {
            assert_eq!(report(&[outside]).outside.len(), 1);
        }
    }

    #[test]
    fn each_program_is_held_to_its_own_table() {
        let mut of_catalogd = event("list", "olm.operatorframework.io", "clustercatalogs", "");
        of_catalogd["user"]["username"] = json!(catalogd::USER);
        let mut too_much = event("delete", "", "secrets", SYSTEM_NAMESPACE);
        too_much["user"]["username"] = json!(catalogd::USER);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for event in [of_catalogd, too_much, event("delete", "", "secrets", SYSTEM_NAMESPACE)] {
            writeln!(file, "{event}").unwrap();
        }
        let mut of_classic = event("list", "", "secrets", classic::NAMESPACE);
        of_classic["user"]["username"] = json!(classic::USER);
        writeln!(file, "{of_classic}").unwrap();
        let requests = distilled(file.path()).unwrap();
        let [operator, catalogd, classic] = Subject::ALL.map(|subject| Report::new(subject, &requests));
        assert_eq!(used(&classic, "secrets", "list"), [(false, 0), (true, 1)], "in its own namespace");
        assert_eq!(used(&operator, "clustercatalogs", "list"), [(false, 0)]);
        assert_eq!(used(&catalogd, "clustercatalogs", "list"), [(false, 1)]);
        assert_eq!(used(&operator, "secrets", "delete"), [(true, 1)]);
        assert_eq!((operator.outside.len(), catalogd.outside.len()), (0, 1), "{:?}", catalogd.outside);
        assert!(!catalogd.used.keys().any(|permission| permission.resource.starts_with("clusterextensions")));
    }

    #[test]
    fn what_was_forbidden_and_who_else_asked_is_told_apart() {
        let mut forbidden = event("delete", "", "pods", "n");
        forbidden["annotations"]["authorization.k8s.io/decision"] = json!("forbid");
        let mut other = event("delete", "", "pods", "n");
        other["user"]["username"] = json!("ann");
        other["userAgent"] = json!(USER);
        let mut begun = event("watch", "apps", "deployments", "n");
        begun["stage"] = json!("ResponseStarted");
        let of_oneself = event("create", "authorization.k8s.io", "selfsubjectaccessreviews", "");
        let mut taken_away = event("create", "", "serviceaccounts/token", "n");
        taken_away["annotations"] = forbidden["annotations"].clone();
        let watched = event("watch", "apps", "deployments", "n");
        let report = report(&[forbidden, other, begun, watched, of_oneself, taken_away]);
        assert_eq!(report.outside.len(), 1, "{:?}", report.outside);
        assert!(report.outside.keys().all(|request| request.verb == "delete" && request.forbidden));
        assert_eq!(report.revoked.len(), 1);
        assert_eq!(used(&report, "serviceaccounts/token", "create"), [(false, 0)]);
        assert_eq!(used(&report, "deployments", "watch"), [(false, 1)]);
    }
}
