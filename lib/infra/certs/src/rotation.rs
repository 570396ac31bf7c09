//! The life of a certificate, as a function of what its Secret keeps and of the time.
//!
//! A pair is renewed when a third of its life is left: the new pair is *staged* beside the old one and its
//! authority joins the bundle; once clients have heard of it, the new pair *serves*; an old authority leaves
//! the bundle when it has expired, so that a server that has not read its files again stays trusted till then.
//! Nothing but the certificates themselves says where in its life a Secret is.

use std::time::Duration;

use jiff::Timestamp;

use crate::issue::{Details, IssueError, Pair, Wanted, blocks, certified_key, issue, read};

/// Most authorities of a bundle: the one in use, the next, and those that a lost Secret may have left.
const AUTHORITIES_MAX: usize = 4;

/// What a Secret keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The pair that serves.
    pub serving: Option<Pair>,
    /// The pair that serves next.
    pub staged: Option<Pair>,
    /// The authorities to be trusted, PEM.
    pub authorities: String,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing until then.
    Rest(Timestamp),
    /// No pair is usable: a new one serves at once.
    Replace,
    /// A new pair is put beside the one that serves.
    Stage,
    /// The staged pair serves.
    Switch,
    /// Authorities that have expired leave the bundle.
    Prune,
}

impl Content {
    /// The step that is due at `now`.
    pub fn step(&self, wanted: &Wanted<'_>, now: Timestamp) -> Step {
        let usable = |pair: &Option<Pair>| self.usable(pair.as_ref()?, wanted, now);
        let staged = usable(&self.staged);
        let Some(serving) = usable(&self.serving) else {
            return if staged.is_some() { Step::Switch } else { Step::Replace };
        };
        if self.staged.is_some() {
            let Some(staged) = staged else { return Step::Stage };
            let ready = staged.begun() + settle(&staged, wanted);
            return if now.as_second() >= ready { Step::Switch } else { Step::Rest(at(ready)) };
        }
        let renewal = serving.begun() + serving.life() / 3 * 2;
        if now.as_second() >= renewal {
            return Step::Stage;
        }
        let expiries = blocks(&self.authorities).map(|block| read(block).map_or(0, |ca| ca.not_after));
        let expiry = expiries.min().unwrap_or(i64::MAX);
        if expiry <= now.as_second() {
            return Step::Prune;
        }
        Step::Rest(at(renewal.min(expiry)))
    }

    /// The content after a step.
    pub fn after(&self, step: Step, wanted: &Wanted<'_>, now: Timestamp) -> Result<Self, IssueError> {
        let mut after = self.clone();
        match step {
            Step::Rest(_) => {}
            Step::Switch => after.serving = after.staged.take().or(after.serving),
            Step::Prune => after.authorities = joined(living(&self.authorities, now)),
            Step::Replace | Step::Stage => {
                let issued = issue(wanted, now)?;
                after.authorities = self.with_authority(&issued.authority, now);
                if step == Step::Stage {
                    after.staged = Some(issued.pair);
                } else {
                    (after.serving, after.staged) = (Some(issued.pair), None);
                }
            }
        }
        Ok(after)
    }

    /// How long clients get to hear of the bundle before what it adds is used.
    pub fn settling(&self, wanted: &Wanted<'_>) -> Duration {
        let staged = self.staged.as_ref().and_then(|pair| read(&pair.certificate));
        Duration::from_secs(staged.map_or(1, |staged| settle(&staged, wanted)).unsigned_abs())
    }

    /// Those that are made last stay, whatever their order is.
    fn with_authority(&self, new: &str, now: Timestamp) -> String {
        let mut all = living(&self.authorities, now);
        all.sort_by_key(|block| read(block).map(|ca| ca.not_before));
        all.extend(blocks(new));
        let surplus = all.len().saturating_sub(AUTHORITIES_MAX);
        joined(all.split_off(surplus))
    }

    /// The certificate of a pair, if it belongs to its key, is for the names, is trusted by the bundle, and lives for
    /// longer than another one takes to settle.
    fn usable(&self, pair: &Pair, wanted: &Wanted<'_>, now: Timestamp) -> Option<Details> {
        let (found, now) = (read(&pair.certificate)?, now.as_second());
        let lives = found.not_before <= now && found.not_after - now > settle(&found, wanted);
        let covers_all = wanted.names.iter().all(|name| found.names.contains(name));
        let trusted = blocks(&self.authorities).filter_map(read).any(|ca| ca.subject == found.issuer);
        let is_pair = || certified_key(pair.certificate.as_bytes(), pair.key.as_bytes()).is_ok();
        (lives && covers_all && trusted && is_pair()).then_some(found)
    }
}

fn living(bundle: &str, now: Timestamp) -> Vec<&str> {
    blocks(bundle).filter(|block| read(block).is_some_and(|ca| ca.not_after > now.as_second())).collect()
}

fn joined(blocks: Vec<&str>) -> String {
    blocks.into_iter().flat_map(|block| [block, "\n"]).collect()
}

fn settle(certificate: &Details, wanted: &Wanted<'_>) -> i64 {
    let most = i64::try_from(wanted.settle_max.as_secs()).unwrap_or(i64::MAX).max(1);
    (certificate.life() / 20).clamp(1, most)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    };

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// A certificate for a day.
    fn wanted(names: &[String]) -> Wanted<'_> {
        Wanted { common_name: "olm-webhook", names, lifetime: DAY, settle_max: Duration::from_mins(1) }
    }

    fn names() -> Vec<String> {
        vec!["a.ns".to_owned(), "a.ns.svc".to_owned()]
    }

    fn start() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn after(hours: i64) -> Timestamp {
        start() + jiff::SignedDuration::from_hours(hours)
    }

    fn due(content: &Content, now: Timestamp) -> Step {
        content.step(&wanted(&names()), now)
    }

    fn then(content: &Content, step: Step, now: Timestamp) -> Content {
        content.after(step, &wanted(&names()), now).unwrap()
    }

    fn fresh() -> Content {
        then(&Content::default(), Step::Replace, start())
    }

    fn authorities(content: &Content) -> usize {
        blocks(&content.authorities).count()
    }

    #[test]
    fn a_rotation_overlaps_both_authorities() {
        let first = fresh();
        assert_eq!(due(&first, start()), Step::Rest(after(16)));
        assert_eq!(due(&first, after(16)), Step::Stage);

        let staged = then(&first, Step::Stage, after(16));
        assert_eq!((&staged.serving, authorities(&staged)), (&first.serving, 2));
        let settled = after(16) + jiff::SignedDuration::from_secs(60);
        assert_eq!(due(&staged, after(16)), Step::Rest(settled));
        assert_eq!(due(&staged, settled), Step::Switch);
        assert_eq!(staged.settling(&wanted(&names())), Duration::from_mins(1));
        // The end came before the staged pair served.
        assert_eq!(due(&staged, after(24)), Step::Switch);

        let switched = then(&staged, Step::Switch, settled);
        assert_eq!((&switched.serving, &switched.staged), (&staged.staged, &None));
        assert_eq!(switched.authorities, staged.authorities);
        // The old authority is trusted for as long as a server may still show what it signed.
        assert_eq!(due(&switched, settled), Step::Rest(after(24)));
        assert_eq!(due(&switched, after(24)), Step::Prune);
        let pruned = then(&switched, Step::Prune, after(24));
        assert_eq!(authorities(&pruned), 1);
        assert_eq!(due(&pruned, after(24)), Step::Rest(after(32)));
    }

    #[test]
    fn what_is_not_usable_is_replaced_and_what_is_trusted_stays_so() {
        let (good, other) = (fresh(), fresh());
        let pair = |certificate: &str, key: &str| {
            Some(Pair { certificate: certificate.to_owned(), key: key.to_owned() })
        };
        let (own, foreign) = (good.serving.clone().unwrap(), other.serving.clone().unwrap());
        for broken in [
            Content::default(),
            Content { serving: pair(&own.certificate, &foreign.key), ..good.clone() },
            Content {
                serving: pair("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----", &own.key),
                ..good.clone()
            },
            Content { authorities: other.authorities.clone(), ..good.clone() },
        ] {
            assert_eq!(due(&broken, start()), Step::Replace);
        }
        assert_eq!(good.step(&wanted(&["b.ns".to_owned()]), start()), Step::Replace);
        assert_eq!(due(&good, after(24)), Step::Replace, "it has expired");
        let last_minute = after(24) - jiff::SignedDuration::from_secs(60);
        assert_eq!(due(&good, last_minute), Step::Replace, "another one would come too late");
        assert_eq!(due(&good, after(-2)), Step::Replace, "its life begins in the future");
        let unusable = Content { serving: pair(&own.certificate, ""), ..good };
        let replaced = then(&unusable, Step::Replace, start());
        assert_eq!((due(&replaced, start()), authorities(&replaced)), (Step::Rest(after(16)), 2));
        let broken = Content { staged: pair("", ""), ..replaced };
        assert_eq!(due(&broken, start()), Step::Stage);
    }

    /// Serving certificates had their authority in their chain and in names that end with the time; those of webhooks
    /// began five minutes back.
    #[test]
    fn secrets_of_earlier_versions_are_rotated_without_a_break() {
        for (skew, has_chain) in [(3600, true), (300, false)] {
            let time = |params: &mut CertificateParams| {
                let at = |seconds: i64| {
                    rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds.unsigned_abs())
                };
                params.not_before = at(start().as_second() - skew);
                params.not_after = at(after(90 * 24).as_second());
            };
            let mut authority = CertificateParams::default();
            authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
            authority.distinguished_name.push(DnType::CommonName, "a.ns authority 1800000000");
            time(&mut authority);
            let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
            let mut serving = CertificateParams::new(names()).unwrap();
            time(&mut serving);
            let key = KeyPair::generate().unwrap();
            let certificate = serving.signed_by(&key, &authority).unwrap().pem();
            let chain = if has_chain { authority.pem() } else { String::new() };
            let pair = Pair { certificate: format!("{certificate}{chain}"), key: key.serialize_pem() };
            let kept = Content { serving: Some(pair), staged: None, authorities: authority.pem() };
            assert!(matches!(due(&kept, start()), Step::Rest(_)));
            assert_eq!(due(&kept, after(61 * 24)), Step::Stage);
            let staged = then(&kept, Step::Stage, after(61 * 24));
            assert!(staged.serving == kept.serving && staged.authorities.starts_with(authority.pem().trim()));
            assert_eq!(due(&staged, after(61 * 24 + 1)), Step::Switch);
        }
    }

    #[test]
    fn a_bundle_keeps_the_last_authorities_and_never_grows_beyond_its_limit() {
        let mut content = Content::default();
        for hour in 0..10 {
            content = then(&content, Step::Replace, after(hour));
            // The order in which an earlier version wrote them.
            content.authorities =
                joined(blocks(&content.authorities).collect::<Vec<_>>().into_iter().rev().collect());
        }
        assert_eq!(authorities(&content), AUTHORITIES_MAX);
        let made = |block: &str| read(block).map(|ca| ca.begun());
        let wanted: Vec<_> = (6..10).rev().map(|hour| Some(after(hour).as_second())).collect();
        assert_eq!(blocks(&content.authorities).map(made).collect::<Vec<_>>(), wanted);
        assert!(matches!(due(&content, after(9)), Step::Rest(_)));
    }
}
