//! Pulls that take their time, or never end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_long_pull_says_how_far_it_is() {
    let world = World::new(&tag());
    *world.registry.pull_seconds.lock().unwrap() = 15;
    assert_eq!(world.reconcile().await, Next::Await);
    let pulling = format!("Pulling {ONE}: ");
    assert_eq!(
        world.events(),
        [
            format!("Pulling: {pulling}3.0 of 30.0 MB, 0 of 2 layers"),
            format!("Pulling: {pulling}18.0 of 30.0 MB, 1 of 2 layers"),
            format!("Unpacked: Serving content of {ONE}"),
        ]
    );
    let status = format!("PUT {RESOURCE}/status");
    assert_eq!(world.requests(), [format!("PATCH {RESOURCE}"), status.clone(), status.clone(), status]);
    assert_eq!(world.condition("Reconciling"), "");
    assert!(world.condition("Ready").starts_with("True/"));

    // While old content of the same source is served, it stays ready.
    world.registry.tags.lock().unwrap().insert("quay.io/a/b:v1".into(), TWO.into());
    world.change(|object| object["spec"]["source"]["image"]["pollIntervalMinutes"] = json!(1));
    world.later(100);
    let told = Arc::clone(&world.server);
    let seen = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(8)).await;
        told.lock().unwrap().object["status"]["conditions"].clone()
    });
    world.reconcile().await;
    let seen = seen.await.unwrap();
    let ready = seen.as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
    let text =
        format!("Serving desired content from resolved source; pulling {TWO}: 3.0 of 30.0 MB, 0 of 2 layers");
    assert_eq!((ready["status"].as_str(), ready["message"].as_str()), (Some("True"), Some(text.as_str())));
    assert_eq!(world.served().as_deref(), Some(TWO));
}

#[tokio::test(start_paused = true)]
async fn a_long_pull_that_fails_is_tried_again_only_after_its_wait() {
    let world = World::new(&json!({ "ref": "quay.io/a/b:bad" }));
    world.registry.tags.lock().unwrap().insert("quay.io/a/b:bad".into(), ONE.replace('1', "9"));
    *world.registry.pull_seconds.lock().unwrap() = 5;
    let failed = world.reconcile().await;
    assert!(matches!(&failed, Next::RetryAfter(text, _) if text.ends_with("no label")), "{failed:?}");
    assert_eq!(world.asked().len(), 2);
    assert!(world.condition("Ready").starts_with("False/Blocked/source catalog content: "));
    // The event of the status.
    assert!(matches!(world.reconcile().await, Next::After(_)));
    assert!(world.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_hangs_takes_no_worker_and_is_let_go_of_with_the_catalog() {
    let world = World::new(&tag());
    *world.registry.pull_seconds.lock().unwrap() = 1_000_000;
    let started = tokio::time::Instant::now();
    for _ in 0..3 {
        assert!(matches!(world.reconcile_once().await, Next::After(_)));
    }
    assert!(started.elapsed() < Duration::from_secs(1), "a reconcile waited for the registry");
    // The job runs now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.asked().len(), 2, "one pull, however often it is requested");
    assert_eq!(Arc::strong_count(&world.registry.pulling), 2);
    world.change(|object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(world.reconcile_once().await, Next::Await);
    assert_eq!(world.get("/metadata/finalizers"), json!([]));
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&world.registry.pulling), 1, "the pull goes on");
    assert_eq!(world.served(), None);
}

#[tokio::test(start_paused = true)]
async fn another_reference_ends_the_pull_of_the_one_before() {
    let world = World::new(&tag());
    *world.registry.pull_seconds.lock().unwrap() = 1_000_000;
    world.reconcile_once().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(Arc::strong_count(&world.registry.pulling), 2);
    *world.registry.pull_seconds.lock().unwrap() = 0;
    world.change(|object| object["spec"]["source"]["image"]["ref"] = json!(TWO));
    assert_eq!(world.reconcile().await, Next::Await);
    assert_eq!((Arc::strong_count(&world.registry.pulling), world.served().as_deref()), (1, Some(TWO)));
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_does_not_answer_is_said_to_be_waited_for() {
    let world = World::new(&json!({ "ref": "quay.io/a/b:slow" }));
    world.registry.tags.lock().unwrap().insert("quay.io/a/b:slow".into(), ONE.into());
    *world.registry.resolve_seconds.lock().unwrap() = 100;
    let Next::After(wait) = world.reconcile_once().await else { panic!("not looked at again") };
    assert_eq!(world.condition("Ready"), "", "most are over by then");
    tokio::time::sleep(wait).await;
    world.reconcile_once().await;
    let text = "Pulling quay.io/a/b:slow: waiting for the registry";
    assert_eq!(world.condition("Ready"), format!("False/Reconciling/{text}"));
    assert_eq!(world.condition("Progressing"), "", "upstream has no words for it");
    assert_eq!(world.reconcile().await, Next::Await);
    assert!(world.condition("Ready").starts_with("True/Succeeded/"));
}
