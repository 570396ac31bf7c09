//! Every change of phase, reason and message of a ClusterServiceVersion that was recorded on a cluster of OLM Classic: the
//! state machine, from the state before and the facts that the other recorded objects give, comes to the same.
//!
//! Upstream decided on what its caches held, which may have been a version or two behind: facts are taken from the last
//! versions of each object, and one of the combinations has to give the answer.

mod facts;
mod record;
mod requirements;

use jiff::{SignedDuration, Timestamp};
use olm_classic_core::csv::{Effect, View, step};
use olm_test::prelude::*;

use self::{
    facts::Facts,
    record::{Event, Record},
};
use crate::data::{self, Counts};

/// The row of the page of differences for failures whose cause is still there.
const LASTING: &str = "failures that last";

pub(crate) fn check() {
    for name in ["happy", "states"] {
        let part = format!("classic/{name}.jsonl.zst");
        data::each(&format!("classic states, {name}"), &part, |folder, counts| {
            check_all(&Record::read(&folder.join(&part)), counts);
        });
        data::each(&format!("classic requirements, {name}"), &part, |folder, counts| {
            requirements::check(&Record::read(&folder.join(&part)), counts);
        });
    }
}

/// Phase, reason and message.
type State = [String; 3];

fn state(event: &Event) -> State {
    ["phase", "reason", "message"].map(|field| event.status[field].as_str().unwrap_or_default().to_owned())
}

fn check_all(record: &Record, counts: &mut Counts) {
    for (key, history) in record.of_kind("clusterserviceversions") {
        for pair in history.windows(2) {
            let [before, after] = pair else { continue };
            let is_change = after.ev != "DELETED" && before.ev != "DELETED" && before.uid == after.uid;
            if !is_change || after.is_copy() || state(before) == state(after) {
                continue;
            }
            check_change(
                record,
                (before, after),
                counts,
                &format!("{}/{} {} {}", key.0, key.1, after.uid, after.rv),
            );
        }
    }
}

fn check_change(record: &Record, (before, after): (&Event, &Event), counts: &mut Counts, case: &str) {
    let facts = Facts::of(record, before, after);
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(after.t);
    let wanted = state(after);
    let mut found = BTreeSet::new();
    for (csv, view) in facts.views() {
        let after = run(&csv, &view, now);
        if after == wanted {
            counts.equal();
            return;
        }
        found.insert(after);
    }
    let [phase, reason, _] = state(before);
    let lasts = ["OwnerConflict", "InvalidWebhookDescription"].contains(&reason.as_str());
    // The failure stays, or ends as another one only when its cause is over.
    if phase == "Failed" && lasts && found.contains(&state(before)) {
        counts.named(LASTING, case);
        return;
    }
    counts.different(format!(
        "{case} {}: {:?}, upstream {wanted:?}, here {found:?}",
        after.name,
        state(before)
    ));
}

fn run(csv: &olm_api_classic::ClusterServiceVersion, view: &View, now: Timestamp) -> State {
    let step = step(csv, view, now);
    let asked = step.effects.iter().find_map(|effect| match effect {
        Effect::Ask(fact) => Some(format!("{fact:?} is not known")),
        _ => None,
    });
    if let Some(asked) = asked {
        return [asked, String::new(), String::new()];
    }
    let status = step.status;
    [status.phase, status.reason, status.message].map(Option::unwrap_or_default)
}
