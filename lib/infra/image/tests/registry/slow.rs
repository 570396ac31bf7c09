//! Registries that are slow, drip or hang.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use olm_image::{LeastSpeed, Puller, Select};

use crate::{
    failures::{is_layer, large_image, pull_with},
    ordinary::image,
    server::FakeRegistry,
};

#[tokio::test]
async fn a_registry_that_stops_answering_is_given_up() {
    let registry = FakeRegistry::start().await;
    let packed = large_image();
    registry.put("v1", &packed);
    let other = packed.clone();
    registry.interfere(move |seen| {
        is_layer(seen, &other).then(|| {
            let start =
                futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"start")) });
            Body::from_stream(start.chain(futures::stream::pending())).into_response()
        })
    });
    let mut config = registry.config();
    config.timeouts.read = Duration::from_millis(50);
    config.timeouts.retries = 0;
    let error = pull_with(&Puller::new(config), &registry, &packed).await.expect_err("gives up").to_string();
    assert!(error.contains("reading blob") && error.contains("timed out"), "{error}");
}

/// An answer of one byte after the other, without an end.
fn dripping() -> Response {
    let drops = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
    });
    Body::from_stream(drops).into_response()
}

#[tokio::test]
async fn a_registry_that_drips_is_given_up() {
    let registry = FakeRegistry::start().await;
    let packed = large_image();
    registry.put("v1", &packed);
    let mut config = registry.config();
    config.timeouts.least_speed = LeastSpeed {
        bytes_per_second: 100_000,
        over: Duration::from_secs(1),
        after: Duration::from_millis(10),
    };
    config.timeouts.answer = Duration::from_millis(300);
    let puller = Puller::new(config);
    let other = packed.clone();
    registry.interfere(move |seen| is_layer(seen, &other).then(dripping));
    let error = pull_with(&puller, &registry, &packed).await.expect_err("too slow").to_string();
    assert!(error.starts_with("error copying image: reading blob sha256:"), "{error}");
    assert!(error.ends_with(": the registry sent less than 100000 bytes a second for 1 seconds"), "{error}");
    assert_eq!(
        registry.seen().iter().filter(|seen| is_layer(seen, &packed)).count(),
        1,
        "no use in trying again"
    );

    // A manifest, and an error.
    for code in [StatusCode::OK, StatusCode::NOT_FOUND] {
        registry.interfere(move |seen| {
            seen.path.contains("/manifests/").then(|| (code, dripping()).into_response())
        });
        let error = pull_with(&puller, &registry, &packed).await.expect_err("given up").to_string();
        let wanted =
            if code.is_success() { "did not arrive within 0 seconds" } else { "not found (status 404)" };
        assert!(error.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn a_registry_that_hangs_takes_its_own_places_only() {
    let (hostile, honest) = (FakeRegistry::start().await, FakeRegistry::start().await);
    let packed = image(&[("a", "x")]);
    hostile.put("v1", &packed);
    honest.put("v1", &packed);
    hostile.interfere(|seen| {
        seen.path.contains("/blobs/").then(|| {
            Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()).into_response()
        })
    });
    let mut config = hostile.config();
    let both = [&hostile, &honest]
        .map(|one| format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", one.address));
    config.registries_conf = Some(hostile.registries_conf(&both.concat()));
    let puller = Puller::new(config);
    let pull = || {
        let (puller, reference) = (puller.clone(), hostile.reference("a:v1").at(packed.digest().clone()));
        tokio::spawn(async move { puller.pull(&reference, |_| Ok(Select::everything())).await.map(drop) })
    };
    let blobs =
        |registry: &FakeRegistry| registry.seen().iter().filter(|seen| seen.path.contains("/blobs/")).count();
    let mut hanging = vec![pull(), pull()];
    while blobs(&hostile) < 2 {
        tokio::task::yield_now().await;
    }
    // It waits for the place of one of the others.
    hanging.push(pull());
    pull_with(&puller, &honest, &packed).await.expect("another registry is not concerned");
    assert_eq!(blobs(&hostile), 2, "two places a registry");
    assert!(hanging.iter().all(|pull| !pull.is_finished()));
    // Ended, it makes room for the third.
    hanging[0].abort();
    while blobs(&hostile) < 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_layer_that_stops_makes_room_when_another_one_waits() {
    let (hostile, honest) = (FakeRegistry::start().await, FakeRegistry::start().await);
    let (large, packed) = (large_image(), image(&[("a", "x")]));
    hostile.put("v1", &large);
    honest.put("v1", &packed);
    let other = large.clone();
    hostile.interfere(move |seen| {
        is_layer(seen, &other).then(|| {
            let start =
                futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"start")) });
            Body::from_stream(start.chain(futures::stream::pending())).into_response()
        })
    });
    let mut config = hostile.config();
    config.concurrency.unpacking = 1;
    let both = [&hostile, &honest]
        .map(|one| format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", one.address));
    config.registries_conf = Some(hostile.registries_conf(&both.concat()));
    let puller = Puller::new(config);
    let (other, reference) = (puller.clone(), hostile.reference("a:v1").at(large.digest().clone()));
    let hanging = tokio::spawn(async move { other.pull(&reference, |_| Ok(Select::everything())).await });
    while !hanging.is_finished() {
        pull_with(&puller, &honest, &packed).await.expect("another registry is not concerned");
    }
    let error = hanging.await.expect("no panic").expect_err("ended").to_string();
    let wanted = "the registry sent next to nothing for a while, and other images were waiting";
    assert!(error.starts_with("error copying image: reading blob") && error.ends_with(wanted), "{error}");
}

#[tokio::test]
async fn a_pull_as_a_whole_has_a_deadline() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[]);
    registry.interfere(|seen| {
        (seen.path != "/v2/")
            .then(|| (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "60")]).into_response())
    });
    let mut config = registry.config();
    config.timeouts.total = Duration::from_millis(100);
    config.timeouts.backoff_max = Duration::from_mins(1);
    let error = pull_with(&Puller::new(config), &registry, &packed).await.expect_err("gives up");
    assert_eq!(error.to_string(), "error copying image: not finished after 0 seconds");
}
