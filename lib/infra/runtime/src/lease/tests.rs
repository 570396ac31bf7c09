use std::sync::Arc;

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

fn held_by(holder: &str) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(137),
        ..LeaseSpec::default()
    }
}

#[test]
fn the_holder_renews() {
    assert_eq!(decide(&held_by("me"), "me", Duration::ZERO), Step::Take { transition: false });
}

#[test]
fn others_wait_until_the_record_has_been_still_for_its_duration() {
    assert_eq!(decide(&held_by("you"), "me", Duration::from_secs(136)), Step::Wait);
    assert_eq!(decide(&held_by("you"), "me", Duration::from_secs(138)), Step::Take { transition: true });
}

#[test]
fn a_released_lease_is_taken_at_once() {
    assert_eq!(decide(&held_by(""), "me", Duration::ZERO), Step::Take { transition: true });
}

/// An API server with one Lease, and whether it answers.
#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    /// Reads and writes that it refuses from now on.
    refusals: usize,
    writes: usize,
    reads: usize,
}

impl Stored {
    fn answer(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        if self.refusals > 0 {
            self.refusals -= 1;
            return (500, failure(500, "InternalError"));
        }
        if *method == Method::GET {
            self.reads += 1;
            return self.lease.clone().map_or_else(|| (404, failure(404, "NotFound")), |lease| (200, lease));
        }
        if *method == Method::PUT && self.lease.is_none() {
            return (404, failure(404, "NotFound"));
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let present = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
        if present.is_some_and(|version| *version != lease["metadata"]["resourceVersion"]) {
            return (409, failure(409, "Conflict"));
        }
        self.version += 1;
        self.writes += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        (200, lease)
    }

    /// A write of another client.
    fn change(&mut self, pointer: &str, value: Value) {
        self.version += 1;
        if let Some(lease) = self.lease.as_mut() {
            lease["metadata"]["resourceVersion"] = self.version.to_string().into();
            *lease.pointer_mut(pointer).unwrap() = value;
        }
    }

    fn holder(&self) -> String {
        let holder = self.lease.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        holder.unwrap_or_default().to_owned()
    }
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code})
}

/// The candidate `me` for a lease in a world of its own.
fn candidate() -> (Elector, Arc<Mutex<Stored>>) {
    let stored = Arc::new(Mutex::new(Stored::default()));
    let served = stored.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let served = served.clone();
        async move {
            if request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true") || query.contains("limit="))
            {
                std::future::pending::<()>().await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let (code, answer) = served.lock().answer(&parts.method, &body);
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            answer.map_err(tower::BoxError::from)
        }
    });
    let terms = Terms {
        duration: Duration::from_secs(6),
        renew_deadline: Duration::from_secs(5),
        retry: Duration::from_secs(1),
    };
    (Elector::new(Client::new(service, "default"), "ns", "lease", "me", terms), stored)
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_by_itself_gives_the_lease_back() {
    let (elector, stored) = candidate();
    let during = stored.clone();
    let led = elector.lead(CancellationToken::new(), |_| async move {
        assert_eq!(during.lock().holder(), "me");
    });
    assert_eq!(led.await, Ok(()));
    assert_eq!(stored.lock().holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_stop_releases_the_lease_within_five_seconds_whatever_the_work_does() {
    let (elector, stored) = candidate();
    let shutdown = CancellationToken::new();
    let (ask, during) = (shutdown.clone(), stored.clone());
    let mut stopped = None;
    let noting = &mut stopped;
    let led = elector.lead(shutdown, |stop| async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        ask.cancel();
        stop.cancelled().await;
        *noting = Some(Instant::now());
        let before = during.lock().writes;
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        let renewed = during.lock().writes - before;
        assert!(renewed >= 2, "renewed {renewed} times while the work went on");
        std::future::pending::<()>().await;
    });
    assert_eq!(led.await, Ok(()));
    assert_eq!(stored.lock().holder(), "");
    let took = stopped.unwrap().elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_tried_again_and_given_up_in_the_end() {
    for (refusals, holder) in [(3, ""), (usize::MAX, "me")] {
        let (elector, stored) = candidate();
        let during = stored.clone();
        let led = elector.lead(CancellationToken::new(), |_| async move {
            during.lock().refusals = refusals;
        });
        let began = Instant::now();
        assert_eq!(led.await, Ok(()));
        assert_eq!(stored.lock().holder(), holder);
        assert!(began.elapsed() <= RELEASE, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_one_write_and_no_read() {
    let (elector, stored) = candidate();
    let during = stored.clone();
    let led = elector.lead(CancellationToken::new(), |_| async move {
        let count = || {
            let stored = during.lock();
            (stored.reads, stored.writes)
        };
        let before = count();
        tokio::time::sleep(Duration::from_mins(1)).await;
        let after = count();
        // Four thirds of a second lie between two.
        let (reads, writes) = (after.0 - before.0, after.1 - before.1);
        assert!(reads == 0 && (40..=45).contains(&writes), "{reads} reads, {writes} writes");
    });
    assert_eq!(led.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_foreign_changes_deletion_and_refusals_of_its_lease() {
    let (elector, stored) = candidate();
    let during = stored.clone();
    let led = elector.lead(CancellationToken::new(), |_| async move {
        during.lock().change("/spec/renewTime", Value::Null);
        tokio::time::sleep(Duration::from_secs(10)).await;
        during.lock().lease = None;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(during.lock().holder(), "me");
        during.lock().refusals = 3;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(during.lock().refusals, 0);
    });
    assert_eq!(led.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_work_at_once_and_is_left_to_its_holder() {
    let (elector, stored) = candidate();
    let (thief, done) = (stored.clone(), Arc::new(Mutex::new(false)));
    let noting = done.clone();
    let led = elector.lead(CancellationToken::new(), |_| async move {
        thief.lock().change("/spec/holderIdentity", "thief".into());
        tokio::time::sleep(Duration::from_secs(20)).await;
        *noting.lock() = true;
    });
    assert_eq!(led.await, Err(LeaseLost { lease: "lease".to_owned() }));
    assert_eq!(stored.lock().holder(), "thief");
    assert!(!*done.lock());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_is_lost_before_another_one_may_take_it() {
    let (elector, stored) = candidate();
    let during = stored.clone();
    let mut since = None;
    let noting = &mut since;
    let led = elector.lead(CancellationToken::new(), |_| async move {
        during.lock().refusals = usize::MAX;
        *noting = Some(Instant::now());
        std::future::pending::<()>().await;
    });
    assert_eq!(led.await, Err(LeaseLost { lease: "lease".to_owned() }));
    let held = since.unwrap().elapsed();
    assert!(held > Duration::from_secs(4) && held < Duration::from_secs(6), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_followed_runs_out_from_when_it_was_seen_first() {
    let (elector, stored) = candidate();
    let record = json!({"metadata": {"name": "lease", "resourceVersion": "0"}, "spec": held_by("you")});
    stored.lock().lease = Some(record);
    observe(&mut elector.followed.lock(), held_by("you"));
    tokio::time::advance(Duration::from_secs(130)).await;
    let campaign = Instant::now();
    assert_eq!(elector.lead(CancellationToken::new(), |_| async {}).await, Ok(()));
    assert!(
        campaign.elapsed() < Duration::from_secs(10),
        "{:?} of 137 s were waited again",
        campaign.elapsed()
    );
}
