use super::*;

fn open(folder: &tempfile::TempDir) -> Interruptions {
    Interruptions::open(folder.path().join("reading")).unwrap()
}

/// As SIGKILL does: nothing is cleaned up.
fn kill(reading: Reading) {
    std::mem::forget(reading);
}

async fn seconds(count: u64) {
    tokio::time::advance(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn the_wait_doubles_with_each_time() {
    let folder = tempfile::tempdir().unwrap();
    kill(open(&folder).begin("a"));
    for wait in [30, 60, 120, 240] {
        let process = open(&folder);
        assert_eq!(process.check("b"), Ok(false));
        seconds(wait - 1).await;
        assert_eq!(process.check("a"), Err(Interrupted), "{wait} s");
        seconds(1).await;
        assert_eq!(process.check("a"), Ok(true), "{wait} s");
        kill(process.begin("a"));
    }
    // A process that ends before it is tried changes nothing.
    assert_eq!(open(&folder).check("a"), Err(Interrupted));
    let process = open(&folder);
    seconds(480).await;
    drop(process.begin("a"));
    assert_eq!((process.check("a"), open(&folder).check("a")), (Ok(false), Ok(false)), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_note_lasts_until_the_last_reader_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let process = open(&folder);
    let (first, second) = (process.begin("a"), process.begin("a"));
    drop(first);
    kill(second);
    assert_eq!(open(&folder).check("a"), Err(Interrupted));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_asked_for_is_no_accident() {
    let folder = tempfile::tempdir().unwrap();
    kill(open(&folder).begin("before"));
    let process = open(&folder);
    seconds(30).await;
    let readings = ["before", "now"].map(|key| process.begin(key));
    process.stop();
    let late = process.begin("late");
    readings.into_iter().for_each(kill);
    kill(late);
    let next = open(&folder);
    assert_eq!((next.check("now"), next.check("late")), (Ok(false), Ok(false)));
    assert_eq!(next.check("before"), Err(Interrupted));
    seconds(30).await;
    assert_eq!(next.check("before"), Ok(true), "it was interrupted once, not twice");
}

#[tokio::test(start_paused = true)]
async fn a_note_that_is_damaged_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    kill(open(&folder).begin("a"));
    fs::write(folder.path().join("reading/a"), "").unwrap();
    let process = open(&folder);
    assert_eq!(process.check("a"), Err(Interrupted));
    seconds(30).await;
    assert_eq!(process.check("a"), Ok(true));
}
