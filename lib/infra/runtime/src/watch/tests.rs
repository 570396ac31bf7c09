use tokio::sync::mpsc;

use super::*;

const OWNER: &str = "example.com/owner";

fn entry(version: &str, owner: &str) -> Entry {
    let owner = OwnerChanged::Named { kind: "ClusterObjectSet".into(), name: owner.into() };
    Entry { uid: "u".into(), resource_version: version.into(), owner: Some(owner) }
}

fn place(name: &str) -> Place {
    ("n".into(), name.into())
}

#[test]
fn whoever_loses_an_object_is_woken_with_the_new_owner() {
    let known = Mutex::new(Known::default());
    let name = |owner: OwnerChanged| match owner {
        OwnerChanged::Named { name, .. } => name,
        OwnerChanged::Uid { uid } => panic!("kept for {uid}"),
    };
    let names = |owners: Vec<OwnerChanged>| owners.into_iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(note(&known, place("a"), Some(entry("1", "x-1")))), ["x-1"]);
    assert_eq!(names(note(&known, place("a"), Some(entry("2", "x-1")))), ["x-1"]);
    assert_eq!(names(note(&known, place("a"), Some(entry("3", "thief")))), ["thief", "x-1"]);
    assert_eq!(names(note(&known, place("a"), None)), ["thief"]);
    replace(&known, [(place("b"), entry("1", "x-1"))].into());
    let listed = replace(&known, [(place("b"), entry("2", "thief"))].into());
    assert_eq!(names(listed), ["thief", "x-1"]);
}

#[test]
fn a_new_list_wakes_the_owners_of_what_differs() {
    let known = Mutex::new(Known::default());
    let first = [(place("a"), entry("1", "x-1")), (place("b"), entry("1", "y-1"))];
    assert_eq!(replace(&known, first.into()).len(), 2);
    let second = [(place("a"), entry("1", "x-1"))];
    let gone = OwnerChanged::Named { kind: "ClusterObjectSet".into(), name: "y-1".into() };
    assert_eq!(replace(&known, second.into()), [gone], "the object of y-1 vanished while the watch was away");
}

#[test]
fn an_object_without_a_reference_names_its_owner_by_annotation() {
    let mut object: Metadata =
        serde_json::from_value(serde_json::json!({"metadata": {"name": "o"}})).unwrap();
    object.metadata.annotations = Some([(OWNER.to_owned(), "u".to_owned())].into());
    assert_eq!(record(&object, OWNER).1.owner, Some(OwnerChanged::Uid { uid: "u".into() }));
    let reference = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        kind: "ReplicaSet".into(),
        name: "r".into(),
        controller: Some(true),
        ..Default::default()
    };
    object.metadata.owner_references = Some(vec![reference]);
    let named = OwnerChanged::Named { kind: "ReplicaSet".into(), name: "r".into() };
    assert_eq!(record(&object, OWNER).1.owner, Some(named), "a controller reference counts first");
}

/// An API server without objects that counts how often each kind is listed.
fn counting(lists: Arc<Mutex<BTreeMap<String, usize>>>) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let lists = lists.clone();
        async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                std::future::pending::<()>().await;
            }
            *lists.lock().entry(request.uri().path().to_owned()).or_default() += 1;
            let list = serde_json::json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"resourceVersion": "1"}, "items": [],
            });
            let body = kube::client::Body::from(list.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_told_to_who_needs_the_kind_and_so_is_its_end() {
    let holders = BTreeSet::from(["uid-1".to_owned(), "uid-2".to_owned()]);
    let known = Arc::new(Mutex::new(Known { holders, ..Known::default() }));
    let (events, stream) = mpsc::unbounded_channel();
    let (sender, mut woken) = mpsc::unbounded_channel();
    let changed: Changed = Arc::new(move |owner| drop(sender.send(owner)));
    let stream = futures::stream::unfold(stream, |mut stream| async { Some((stream.recv().await?, stream)) });
    let following = tokio::spawn(follow(stream, known.clone(), changed, ("Beacon".to_owned(), OWNER)));
    let both = ["uid-1", "uid-2"].map(|uid| OwnerChanged::Uid { uid: uid.to_owned() });
    let failing = || known.lock().failing.clone();
    let refuse = || {
        let status = kube::core::Status::failure("no beacons for you", "Forbidden").with_code(403);
        events.send(Err(watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed())))).unwrap();
    };
    events.send(Ok(Event::InitDone)).unwrap();
    for _ in 0..4 {
        refuse();
        tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    }
    assert_eq!([woken.recv().await.unwrap(), woken.recv().await.unwrap()], both);
    assert_eq!(failing().as_deref(), Some("no beacons for you"));
    refuse();
    // Nothing more comes: the watch works, and has nothing to tell.
    let since = tokio::time::Instant::now();
    assert_eq!([woken.recv().await.unwrap(), woken.recv().await.unwrap()], both);
    assert!(failing().is_none() && since.elapsed() > std::time::Duration::from_mins(1));
    assert!(woken.try_recv().is_err(), "each was woken once");
    drop(events);
    following.await.unwrap();
}

fn kind(name: &str) -> Kind {
    let gvk = kube::core::GroupVersionKind::gvk("", "v1", name);
    Kind { resource: ApiResource::from_gvk(&gvk), namespaced: true }
}

#[tokio::test]
async fn a_kind_is_watched_once_and_only_while_somebody_needs_it() {
    let lists = Arc::new(Mutex::new(BTreeMap::new()));
    let watches = WatchManager::new(counting(lists.clone()), "a=b", OWNER, Arc::new(drop), Chance::seeded(1));
    let (maps, secrets) = (kind("ConfigMap"), kind("Secret"));
    let all = |kind: &Kind| Watched::Kind(kind.clone());
    let absent = async |kind: &Kind| {
        let listed = async {
            while watches.seen(&kind.resource, "n", "a") != Seen::Absent {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_mins(1), listed).await.expect("never listed");
    };
    watches.hold("one", &[all(&maps), all(&secrets)]);
    watches.hold("two", &[all(&maps)]);
    absent(&maps).await;
    absent(&secrets).await;
    assert_eq!(watches.count(), 2);
    watches.hold("one", &[]);
    assert_eq!(watches.count(), 1, "only one needed Secrets");
    assert_eq!(watches.seen(&secrets.resource, "n", "a"), Seen::Unknown);
    absent(&maps).await;
    watches.release("two");
    assert_eq!(watches.count(), 0);
    watches.hold("three", &[all(&maps)]);
    absent(&maps).await;
    let lists = lists.lock().clone();
    assert_eq!(lists.get("/api/v1/configmaps"), Some(&2), "once for both, and once again");
    assert_eq!(lists.get("/api/v1/secrets"), Some(&1));
}

#[tokio::test]
async fn one_object_is_watched_with_the_permissions_of_its_account() {
    let lists = |client: &Arc<Mutex<BTreeMap<String, usize>>>| client.lock().clone();
    let [own, of_account] = [(); 2].map(|()| Arc::new(Mutex::new(BTreeMap::new())));
    let watches = WatchManager::new(counting(own.clone()), "a=b", OWNER, Arc::new(drop), Chance::seeded(1));
    let secret = kind("Secret");
    let object = |name: &str, account: &str| Watched::Object {
        kind: secret.clone(),
        namespace: "n".to_owned(),
        name: name.to_owned(),
        account: AccountRef { namespace: "n".into(), name: account.into() },
        client: counting(of_account.clone()),
    };
    watches.hold("one", &[object("s", "installer")]);
    watches.hold("two", &[object("s", "installer")]);
    watches.hold("three", &[object("s", "other"), object("t", "other")]);
    assert_eq!(watches.count(), 3, "the same object for the same account is watched once");
    let absent = async {
        while ["s", "t"].iter().any(|name| watches.seen(&secret.resource, "n", name) != Seen::Absent) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), absent).await.expect("never listed");
    assert_eq!(watches.seen(&secret.resource, "n", "u"), Seen::Unknown, "nobody needs it");
    assert_eq!(watches.seen(&secret.resource, "m", "s"), Seen::Unknown, "another namespace");
    assert!(lists(&own).is_empty(), "the process does not read Secrets: {:?}", lists(&own));
    let path = "/api/v1/namespaces/n/secrets";
    assert!(lists(&of_account).keys().eq([path]), "{:?}", lists(&of_account));
    watches.release("three");
    assert_eq!(watches.count(), 1);
    watches.release("one");
    assert_eq!(watches.seen(&secret.resource, "n", "s"), Seen::Absent, "two still needs it");
    watches.release("two");
    assert_eq!(watches.count(), 0);
}
