//! The life of a webhook's certificate, as a function of what its Secret holds and of the time.
//!
//! A pair is renewed when a third of its life is left: the new pair is *staged* beside the old one and its
//! authority joins the bundle; once every webhook trusts both, the new pair *serves*; an old authority leaves
//! the bundle when it has expired, so that a server that has not read its files again stays trusted till then.
//! Nothing but the certificates themselves says where in its life a Secret is.

use std::time::Duration;

use jiff::Timestamp;

use super::issue::{Issued, Read, SKEW_SECONDS, blocks, is_pair, read};

/// Longest time for API servers to hear of a new bundle, in seconds. Their watches take far less.
const SETTLE_SECONDS_MAX: i64 = 60;
/// Most authorities of a bundle: the one in use, the next, and those that a lost Secret may have left.
const AUTHORITIES_MAX: usize = 4;

/// What a Secret holds, as PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) certificate: String,
    pub(super) key: String,
    /// The authorities to be trusted.
    pub(super) authorities: String,
    /// Certificate and key that are to serve next.
    pub(super) staged: Option<(String, String)>,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing until then.
    Rest(Timestamp),
    /// There is nothing usable: a new pair serves at once.
    Replace,
    /// A new pair is put beside the one that serves.
    Stage,
    /// The staged pair serves, provided that every webhook has the bundle.
    Switch,
    /// Authorities that have expired leave the bundle.
    Prune,
}

/// The step that is due at `now`.
pub(super) fn step(content: &Content, names: &[String], now: Timestamp) -> Step {
    let Some(serving) = usable(content, &content.certificate, &content.key, names, now) else {
        return Step::Replace;
    };
    if let Some((certificate, key)) = &content.staged {
        let Some(staged) = usable(content, certificate, key, names, now) else { return Step::Stage };
        let ready = begun(&staged) + settle(&staged);
        return if now.as_second() >= ready { Step::Switch } else { Step::Rest(at(ready)) };
    }
    let renewal = begun(&serving) + life(&serving) / 3 * 2;
    if now.as_second() >= renewal {
        return Step::Stage;
    }
    let expiries = blocks(&content.authorities).map(|block| read(block).map_or(0, |ca| ca.not_after));
    let expiry = expiries.min().unwrap_or(i64::MAX);
    if expiry <= now.as_second() {
        return Step::Prune;
    }
    Step::Rest(at(renewal.min(expiry)))
}

/// How long webhooks are given to hear of the bundle before what it adds is used.
pub(super) fn settling(content: &Content) -> Duration {
    let staged = content.staged.as_ref().and_then(|(certificate, _)| read(certificate));
    Duration::from_secs(staged.map_or(1, |staged| settle(&staged)).unsigned_abs())
}

impl Content {
    /// With a pair that serves from now on.
    pub(super) fn replaced(&self, issued: Issued, now: Timestamp) -> Self {
        let authorities = self.with_authority(&issued.authority, now);
        Self { certificate: issued.certificate, key: issued.key, authorities, staged: None }
    }

    /// With a pair that is to serve next.
    pub(super) fn staged(&self, issued: Issued, now: Timestamp) -> Self {
        let authorities = self.with_authority(&issued.authority, now);
        Self { staged: Some((issued.certificate, issued.key)), authorities, ..self.clone() }
    }

    /// With the staged pair serving.
    pub(super) fn switched(&self) -> Self {
        let (certificate, key) =
            self.staged.clone().unwrap_or_else(|| (self.certificate.clone(), self.key.clone()));
        Self { certificate, key, staged: None, authorities: self.authorities.clone() }
    }

    /// Without expired authorities.
    pub(super) fn pruned(&self, now: Timestamp) -> Self {
        Self { authorities: joined(living(&self.authorities, now)), ..self.clone() }
    }

    fn with_authority(&self, new: &str, now: Timestamp) -> String {
        let mut all = living(&self.authorities, now);
        all.extend(blocks(new));
        let surplus = all.len().saturating_sub(AUTHORITIES_MAX);
        joined(all.split_off(surplus))
    }
}

fn living(bundle: &str, now: Timestamp) -> Vec<&str> {
    blocks(bundle).filter(|block| read(block).is_some_and(|ca| ca.not_after > now.as_second())).collect()
}

fn joined(blocks: Vec<&str>) -> String {
    blocks.into_iter().flat_map(|block| [block, "\n"]).collect()
}

/// The certificate, if it belongs to its key, is for the names, lives and is trusted by the bundle.
fn usable(content: &Content, certificate: &str, key: &str, names: &[String], now: Timestamp) -> Option<Read> {
    let found = read(certificate)?;
    let trusted = blocks(&content.authorities).filter_map(read).any(|ca| ca.subject == found.issuer);
    let covers_all = names.iter().all(|name| found.names.contains(name));
    (trusted && covers_all && found.not_after > now.as_second() && is_pair(certificate, key)).then_some(found)
}

fn begun(certificate: &Read) -> i64 {
    certificate.not_before + SKEW_SECONDS
}

fn life(certificate: &Read) -> i64 {
    (certificate.not_after - begun(certificate)).max(0)
}

fn settle(certificate: &Read) -> i64 {
    (life(certificate) / 20).clamp(1, SETTLE_SECONDS_MAX)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::issue::issue, *};

    const DAY: Duration = Duration::from_hours(24);

    fn names() -> Vec<String> {
        vec!["a.ns".to_owned(), "a.ns.svc".to_owned()]
    }

    fn start() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn after(hours: i64) -> Timestamp {
        start() + jiff::SignedDuration::from_hours(hours)
    }

    fn new(at: Timestamp) -> Issued {
        issue(&names(), at, DAY).unwrap()
    }

    fn authorities(content: &Content) -> usize {
        blocks(&content.authorities).count()
    }

    #[test]
    fn a_rotation_overlaps_both_authorities() {
        let first = Content::default().replaced(new(start()), start());
        assert_eq!(step(&first, &names(), start()), Step::Rest(after(16)));
        assert_eq!(step(&first, &names(), after(16)), Step::Stage);

        let staged = first.staged(new(after(16)), after(16));
        assert_eq!((staged.certificate.as_str(), authorities(&staged)), (first.certificate.as_str(), 2));
        let settled = after(16) + jiff::SignedDuration::from_secs(60);
        assert_eq!(step(&staged, &names(), after(16)), Step::Rest(settled));
        assert_eq!(step(&staged, &names(), settled), Step::Switch);
        assert_eq!(settling(&staged), Duration::from_mins(1));

        let switched = staged.switched();
        assert_eq!(switched.certificate, staged.staged.clone().unwrap().0);
        assert_eq!((&switched.authorities, &switched.staged), (&staged.authorities, &None));
        // The old authority is trusted for as long as a server may still show what it signed.
        assert_eq!(step(&switched, &names(), settled), Step::Rest(after(24)));
        assert_eq!(step(&switched, &names(), after(24)), Step::Prune);
        let pruned = switched.pruned(after(24));
        assert_eq!(authorities(&pruned), 1);
        assert_eq!(step(&pruned, &names(), after(24)), Step::Rest(after(32)));
    }

    #[test]
    fn what_is_not_usable_is_replaced_and_what_is_trusted_stays_so() {
        let good = Content::default().replaced(new(start()), start());
        let other = new(start());
        for broken in [
            Content::default(),
            Content { key: other.key.clone(), ..good.clone() },
            Content {
                certificate: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----".into(),
                ..good.clone()
            },
            Content { authorities: other.authority.clone(), ..good.clone() },
        ] {
            assert_eq!(step(&broken, &names(), start()), Step::Replace);
        }
        assert_eq!(step(&good, &["b.ns".to_owned()], start()), Step::Replace);
        assert_eq!(step(&good, &names(), after(24)), Step::Replace);
        let replaced = Content { key: String::new(), ..good }.replaced(other, start());
        assert_eq!((step(&replaced, &names(), start()), authorities(&replaced)), (Step::Rest(after(16)), 2));
        let broken = Content { staged: Some((String::new(), String::new())), ..replaced };
        assert_eq!(step(&broken, &names(), start()), Step::Stage);
    }

    #[test]
    fn a_bundle_never_grows_beyond_its_limit() {
        let mut content = Content::default();
        for _ in 0..10 {
            content = content.replaced(new(start()), start());
        }
        assert_eq!(authorities(&content), AUTHORITIES_MAX);
        assert!(matches!(step(&content, &names(), start()), Step::Rest(_)));
    }
}
