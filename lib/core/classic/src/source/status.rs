//! The status of a CatalogSource, from what was found.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use olm_api_classic::{
    CatalogSource, CatalogSourceStatus, ConfigMapReference, ConnectionState, RegistryService,
};
use olm_text::{cut, visible};

use super::{service::PORT, template::Resolution, texts};

/// Longest message, which the schema allows.
const MESSAGE_CHARACTERS_MAX: usize = 8192;
/// Condition: whether content is served. Beside upstream's fields, for people and GitOps tools.
const READY: &str = "Ready";

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Upstream's reason and message, if something is wrong that upstream reports.
    pub problem: Option<(&'static str, String)>,
    /// What became of the image template, if there is one.
    pub template: Option<Resolution>,
    /// The ConfigMap with the content.
    pub config_map: Option<ConfigMapReference>,
    /// The server of the content.
    pub server: Option<Server>,
    /// The time of the last check of the image.
    pub polled: Option<Timestamp>,
    /// Whether content is served, in a sentence.
    pub health: Health,
}

/// The server of the content, as clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The name of the Service and its namespace; none for an address outside.
    pub service: Option<(String, String)>,
    /// `host:port`.
    pub address: String,
    /// The state of the connection, one of upstream's words.
    pub state: &'static str,
    /// Whether it serves another image from now on, for which upstream makes a new server.
    pub is_new: bool,
}

/// Whether content is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Health {
    /// Nothing is known yet; what is reported stays.
    #[default]
    Unknown,
    /// The content of the source is served; the text says which.
    Serving(String),
    /// Earlier content is served; the text says why.
    ServingEarlier(String),
    /// Content is on its way; the text says from where.
    Pending(String),
    /// Nothing is served; the text says why, and what to do.
    Failed(String),
}

impl Health {
    /// With a sentence more, if content is served.
    #[must_use]
    pub fn with(self, sentence: Option<String>) -> Self {
        match (self, sentence) {
            (Self::Serving(text), Some(sentence)) => Self::Serving(format!("{text} {sentence}")),
            (health, _) => health,
        }
    }

    fn condition(&self) -> Option<(&'static str, &'static str, &str)> {
        Some(match self {
            Self::Unknown => return None,
            Self::Serving(text) => ("True", "Serving", text),
            Self::ServingEarlier(text) => ("True", "ServingEarlierContent", text),
            Self::Pending(text) => ("False", "Pending", text),
            Self::Failed(text) => ("False", "Failed", text),
        })
    }
}

/// Whether the catalog of a source can be used, as far as its status says: only a fault makes it unhealthy, not a first pull.
pub fn is_healthy(source: &CatalogSource) -> bool {
    let Some(status) = &source.status else { return true };
    let is_faulty = status
        .reason
        .as_deref()
        .is_some_and(|reason| reason != texts::INVALID_INTERVAL && !reason.is_empty());
    let fails = |one: &Condition| one.type_ == READY && one.status == "False" && one.reason == "Failed";
    !is_faulty && !status.conditions.iter().any(fails)
}

/// Why there is no content of a source, if its status says that it failed: otherwise it is on its way.
pub fn failure(source: &CatalogSource) -> Option<String> {
    let status = source.status.as_ref()?;
    let ready = status.conditions.iter().find(|one| one.type_ == READY);
    let failed = ready.filter(|one| one.status == "False" && one.reason == "Failed");
    let message = status.message.clone().filter(|message| !message.is_empty());
    failed.map(|one| one.message.clone()).or(message)
}

/// The status after a report. Times change only with what they are about.
pub fn status(
    before: &CatalogSourceStatus,
    report: &Report,
    generation: Option<i64>,
    now: Timestamp,
) -> CatalogSourceStatus {
    let is_invalid = |status: &CatalogSourceStatus| status.reason.as_deref() == Some(texts::SPEC_INVALID);
    let mut after = before.clone();
    (after.reason, after.message) = match &report.problem {
        Some((reason, message)) => (Some((*reason).to_owned()), Some(shown(message))),
        None => (None, None),
    };
    if is_invalid(before) && !is_invalid(&after) {
        // Of a spec that could not be followed nothing stays but the conditions.
        after = CatalogSourceStatus {
            conditions: after.conditions,
            reason: after.reason,
            message: after.message,
            ..CatalogSourceStatus::default()
        };
    }
    if !is_invalid(&after) {
        after.config_map_reference = config_map(after.config_map_reference.take(), report, now);
        if let Some(server) = &report.server {
            after.registry_service = Some(registry_service(after.registry_service.take(), server, now));
            after.connection_state = Some(connection(after.connection_state.take(), server, now));
        }
    }
    if let Some(polled) = report.polled {
        after.latest_image_registry_poll = Some(whole_seconds(polled));
    }
    let mut conditions = Conditions { list: std::mem::take(&mut after.conditions), generation, now };
    conditions.set_template(report.template.as_ref());
    if let Some((status, reason, message)) = report.health.condition() {
        conditions.set(READY, status, reason, message);
    }
    after.conditions = conditions.list;
    after
}

fn config_map(
    before: Option<ConfigMapReference>,
    report: &Report,
    now: Timestamp,
) -> Option<ConfigMapReference> {
    let found = report.config_map.clone()?;
    let known = before.filter(|known| {
        let same = |reference: &ConfigMapReference| ConfigMapReference {
            last_update_time: None,
            ..reference.clone()
        };
        same(known) == same(&found)
    });
    Some(known.unwrap_or(ConfigMapReference { last_update_time: Some(whole_seconds(now)), ..found }))
}

fn registry_service(before: Option<RegistryService>, server: &Server, now: Timestamp) -> RegistryService {
    let (service_name, service_namespace) = server.service.clone().unzip();
    let port = server.service.is_some().then(|| PORT.to_string());
    let found = RegistryService {
        protocol: Some("grpc".to_owned()),
        service_name,
        service_namespace,
        port,
        created_at: None,
    };
    match before {
        Some(known) if !server.is_new && (RegistryService { created_at: None, ..known.clone() }) == found => {
            known
        }
        _ => RegistryService { created_at: Some(whole_seconds(now)), ..found },
    }
}

fn connection(before: Option<ConnectionState>, server: &Server, now: Timestamp) -> ConnectionState {
    match before {
        Some(known)
            if known.address.as_ref() == Some(&server.address)
                && known.last_observed_state == server.state =>
        {
            known
        }
        _ => ConnectionState {
            address: Some(server.address.clone()),
            last_observed_state: server.state.to_owned(),
            last_connect: Some(whole_seconds(now)),
        },
    }
}

/// Conditions that keep their time while their status stays.
struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    fn set_template(&mut self, template: Option<&Resolution>) {
        use texts::{
            ALL_TEMPLATES_RESOLVED, RESOLVED_IMAGE, TEMPLATE_RESOLVED, TEMPLATES_HAVE_RESOLVED,
            UNABLE_TO_RESOLVE,
        };
        match template {
            None => {
                self.remove(TEMPLATES_HAVE_RESOLVED);
                self.remove(RESOLVED_IMAGE);
            }
            Some(Resolution::Image(image)) => {
                self.set(TEMPLATES_HAVE_RESOLVED, "True", ALL_TEMPLATES_RESOLVED, TEMPLATE_RESOLVED);
                self.set(RESOLVED_IMAGE, "True", ALL_TEMPLATES_RESOLVED, image);
            }
            Some(Resolution::Unable { filled, message }) => {
                self.set(TEMPLATES_HAVE_RESOLVED, "False", UNABLE_TO_RESOLVE, message);
                self.set(RESOLVED_IMAGE, "False", UNABLE_TO_RESOLVE, filled);
            }
        }
    }

    fn remove(&mut self, type_: &str) {
        self.list.retain(|condition| condition.type_ != type_);
    }

    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let known = self.list.iter().position(|condition| condition.type_ == type_);
        let since = known.map(|at| &self.list[at]).filter(|condition| condition.status == status);
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: shown(message),
            observed_generation: self.generation,
            last_transition_time: since
                .map_or_else(|| whole_seconds(self.now), |condition| condition.last_transition_time.clone()),
        };
        match known {
            Some(at) => self.list[at] = condition,
            None => self.list.push(condition),
        }
    }
}

fn shown(text: &str) -> String {
    cut(&visible(text), MESSAGE_CHARACTERS_MAX).into_owned()
}

/// The API has whole seconds.
fn whole_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(state: &'static str) -> Report {
        let service = Some(("busy".to_owned(), "happy".to_owned()));
        let address = "busy.happy.svc:50051".to_owned();
        let server = Some(Server { service, address, state, is_new: false });
        Report { server, health: Health::Serving("Serving r/c@sha256:1.".to_owned()), ..Report::default() }
    }

    #[test]
    fn times_change_with_what_they_are_about() {
        let first = status(&CatalogSourceStatus::default(), &ready(texts::CONNECTING), Some(1), at(1));
        let service = first.registry_service.clone().unwrap();
        let of = |name: &str| Some(name.to_owned());
        assert_eq!(
            (service.protocol, service.service_name, service.port),
            (of("grpc"), of("busy"), of("50051"))
        );
        assert_eq!(service.created_at, Some(Time(at(1))));
        let second = status(&first, &ready(texts::READY), Some(1), at(2));
        let connection = second.connection_state.clone().unwrap();
        assert_eq!(
            (connection.last_observed_state.as_str(), connection.last_connect),
            ("READY", Some(Time(at(2))))
        );
        assert_eq!(second.registry_service.as_ref().unwrap().created_at, Some(Time(at(1))));
        assert_eq!(second.conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(
            status(&second, &ready(texts::READY), Some(1), at(3)),
            second,
            "no write without a change"
        );
        let mut other_image = ready(texts::READY);
        other_image.server.as_mut().unwrap().is_new = true;
        let third = status(&second, &other_image, Some(2), at(3));
        assert_eq!(third.registry_service.unwrap().created_at, Some(Time(at(3))));
        assert_eq!(third.connection_state, second.connection_state);
        let polled = Report { polled: Some(at(4)), ..ready(texts::READY) };
        assert_eq!(status(&second, &polled, Some(1), at(4)).latest_image_registry_poll, Some(Time(at(4))));
    }

    #[test]
    fn an_invalid_spec_keeps_the_status_until_it_is_valid_again() {
        let good = status(&CatalogSourceStatus::default(), &ready(texts::READY), Some(1), at(1));
        let problem = Some((texts::SPEC_INVALID, "unknown sourcetype: x".to_owned()));
        let invalid = Report { problem, health: Health::Failed("Set it.".to_owned()), ..Report::default() };
        let bad = status(&good, &invalid, Some(2), at(2));
        assert_eq!(bad.reason.as_deref(), Some("SpecInvalidError"));
        assert_eq!(
            (&bad.registry_service, &bad.connection_state),
            (&good.registry_service, &good.connection_state)
        );
        let server = Report { server: None, ..ready(texts::READY) };
        let again = status(&bad, &server, Some(3), at(3));
        assert_eq!((again.reason, again.message, again.registry_service), (None, None, None));
        assert_eq!(again.conditions.len(), 1);
    }

    #[test]
    fn conditions_of_the_template_come_and_go_with_it() {
        let with = |template| Report { template, ..Report::default() };
        let image = status(
            &CatalogSourceStatus::default(),
            &with(Some(Resolution::Image("r/c:v1".to_owned()))),
            Some(1),
            at(1),
        );
        let shown = |status: &CatalogSourceStatus| -> Vec<String> {
            let line = |c: &Condition| format!("{} {} {} {}", c.type_, c.status, c.reason, c.message);
            status.conditions.iter().map(line).collect()
        };
        assert_eq!(
            shown(&image),
            [
                "TemplatesHaveResolved True AllTemplatesResolved catalog image reference was successfully resolved",
                "ResolvedImage True AllTemplatesResolved r/c:v1",
            ]
        );
        let unable = Resolution::Unable { filled: "r/c:{x}".to_owned(), message: "m".to_owned() };
        let failed = status(&image, &with(Some(unable)), Some(1), at(2));
        assert_eq!(
            shown(&failed),
            ["TemplatesHaveResolved False UnableToResolve m", "ResolvedImage False UnableToResolve r/c:{x}"]
        );
        assert!(status(&failed, &with(None), Some(1), at(3)).conditions.is_empty());
    }
}
