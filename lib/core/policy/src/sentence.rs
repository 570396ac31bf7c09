//! Sentences for people.

use jiff::{Timestamp, tz::TimeZone};

use crate::permit::{Approved, Risk, Wait};

/// Names that a sentence lists, at most.
const NAMED_MAX: usize = 3;

/// What a change to `version` waits for, in one sentence without its end.
pub fn sentence(version: &str, waits: &[Wait], now: Timestamp) -> String {
    let clauses: Vec<String> = waits.iter().map(|wait| clause(wait, now)).collect();
    format!("{version} waits for {}", clauses.join(", and for "))
}

/// Why approval is needed, in clauses.
pub fn refusals(risks: &[Risk]) -> Vec<String> {
    risks
        .iter()
        .map(|risk| match risk {
            Risk::MajorVersion { from, to } => format!("the major version changes from {from} to {to}"),
            Risk::Permissions(dangers) => format!("the operator {}", dangers.join(" and ")),
            Risk::Crds(names) => format!("there are findings on {}", few(names)),
            Risk::Dependencies(names) => format!("extensions are created with it ({})", few(names)),
        })
        .collect()
}

fn clause(wait: &Wait, now: Timestamp) -> String {
    match wait {
        Wait::Approval { digest, risks, approved } => {
            let why = match refusals(risks) {
                none if none.is_empty() => String::new(),
                risks => format!(" because {}", risks.join("; ")),
            };
            let instead = match approved {
                Approved::Nothing => String::new(),
                Approved::Another(other) => format!(" (approved is {}, which is another plan)", short(other)),
            };
            format!("the approval of plan {}{instead}{why}", short(digest))
        }
        Wait::Window { opens: Some((at, zone)) } => {
            format!("the window that opens {}", moment(*at, zone, now))
        }
        Wait::Window { opens: None } => "a window, and none opens soon".to_owned(),
        Wait::Age { until } => {
            format!("its minimum age, which it has {}", moment(*until, &TimeZone::UTC, now))
        }
        Wait::Concurrency { names, max } => {
            let most = if *max == 1 { "one rolls out".to_owned() } else { format!("{max} roll out") };
            format!("{} to have rolled out, because only {most} at a time", few(names))
        }
        Wait::Halted { name } => format!("{name}, whose roll-out missed its deadline, to be corrected"),
        Wait::Invalid { why } => format!("the update policy to be corrected: {why}"),
        Wait::Unknown => "the update policies, which cannot be read".to_owned(),
    }
}

/// A digest as far as people compare it.
fn short(digest: &str) -> String {
    digest.chars().take("sha256:".len() + 10).collect()
}

fn few(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = names.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// A moment as the clock of a zone shows it: the day of the week where that is enough.
fn moment(at: Timestamp, zone: &TimeZone, now: Timestamp) -> String {
    let there = zone.to_datetime(at);
    let is_near = at.duration_since(now) < jiff::SignedDuration::from_hours(6 * 24);
    let day = if is_near { "%A".to_owned() } else { "%A %Y-%m-%d".to_owned() };
    let name = zone.iana_name().unwrap_or("UTC");
    format!("{} {name}", there.strftime(&format!("{day} %H:%M")))
}
