mod naive;
mod permits;
mod plain_words;
mod policies;

use jiff::Timestamp;
use olm_api::v1alpha1::{UpdateWindow, WindowKind};

use crate::{Calendar, Window};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A window as `Allow|Deny <schedule> <duration> <zone>`.
fn described(text: &str) -> UpdateWindow {
    let words: Vec<&str> = text.split(' ').collect();
    let [kind, schedule @ .., duration, time_zone] = words.as_slice() else { panic!("{text}") };
    UpdateWindow {
        kind: if *kind == "Deny" { WindowKind::Deny } else { WindowKind::Allow },
        schedule: schedule.join(" "),
        duration: (*duration).to_owned(),
        time_zone: (*time_zone).to_owned(),
    }
}

fn calendar(windows: &[&str]) -> Calendar {
    Calendar::new(windows.iter().map(|text| Window::parse(&described(text)).unwrap()).collect())
}
