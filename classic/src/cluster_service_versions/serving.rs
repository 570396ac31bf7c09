//! Webhooks and APIServices of an operator: certificates, what stands behind them, and how the API server finds them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::{Secret, Service},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch},
};
use olm_api_classic::{WebhookDescription, WebhookType, names::MANAGED_LABEL};
use olm_certs::{Content, Pair, Step, Wanted, issue};
use olm_classic_core::{
    csv::{
        ApiServices, Availability, Certificates, Webhooks,
        chain::Siblings,
        install::{self, deployments::CA_HASH_ANNOTATION, serving},
    },
    group::membership::Group,
};
use olm_object::hex;
use olm_runtime::{api_text, bounded, patch_as, post_as};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Pass, Reconciler, install::Authorities, requirements::is_available};
use crate::{
    objects::{WriteError, contains, ensure},
    operator_groups::owner_of,
    operators::{FIELD_MANAGER, Interest},
};

/// The life of a certificate, and how long before its end the next one is made.
const LIFETIME: Duration = Duration::from_hours(730 * 24);
const EARLY: Duration = Duration::from_hours(24);
/// Key of the Secret with the authority.
const AUTHORITY_KEY: &str = "olmCAKey";

impl Reconciler {
    /// The authorities of the operator's servers; none while one is missing or due.
    pub(super) async fn authorities(
        &self,
        pass: &Pass<'_>,
        now: Timestamp,
    ) -> Result<Option<Authorities>, String> {
        let mut all = Authorities::default();
        for server in serving::servers(pass.csv) {
            let Some(authority) = self.authority(pass, &server, now).await? else { return Ok(None) };
            all.hashes.insert(server.deployment.clone(), hash(&authority));
            all.bundles.insert(server.deployment, STANDARD.encode(&authority));
        }
        Ok(Some(all))
    }

    /// The authority of a server whose certificate is good.
    async fn authority(
        &self,
        pass: &Pass<'_>,
        server: &serving::Server,
        now: Timestamp,
    ) -> Result<Option<String>, String> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &pass.namespace);
        let found = bounded(api.get_opt(&server.secret)).await;
        let found =
            found.map_err(|error| format!("reading Secret {}: {}", server.secret, api_text(&error)))?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        let text = |key: &str| {
            data.get(key).map(|value| String::from_utf8_lossy(&value.0).into_owned()).unwrap_or_default()
        };
        let content = Content {
            serving: Some(Pair { certificate: text("tls.crt"), key: text("tls.key") }),
            staged: None,
            authorities: text(AUTHORITY_KEY),
        };
        let is_good = content.step(&wanted(server), now) != Step::Replace;
        Ok(is_good.then_some(content.authorities))
    }

    pub(super) async fn are_certificates_due(&self, pass: &Pass<'_>, now: Timestamp) -> Result<bool, String> {
        Ok(self.authorities(pass, now).await?.is_none())
    }

    /// Makes certificates, Services and permissions of the operator's servers.
    pub(super) async fn make_servers(
        &self,
        pass: &Pass<'_>,
        now: Timestamp,
    ) -> Result<Option<Certificates>, String> {
        let servers = serving::servers(pass.csv);
        let mut has_issued = false;
        for server in &servers {
            if self.authority(pass, server, now).await?.is_none() {
                self.issue(pass, server, now).await?;
                has_issued = true;
            }
            let api: Api<Service> = Api::namespaced(self.client.clone(), &pass.namespace);
            self.make(&api, &serving::service(pass.csv, server), pass).await?;
            for object in serving::permissions(pass.csv, server) {
                self.make_permission(pass, object).await?;
            }
        }
        let rotation =
            now + jiff::SignedDuration::try_from(LIFETIME.saturating_sub(EARLY)).unwrap_or_default();
        let known = pass.csv.status.as_ref().and_then(|status| {
            Some((status.certs_last_updated.as_ref()?.0, status.certs_rotate_at.as_ref()?.0))
        });
        let (updated, rotate_at) =
            known.filter(|(_, at)| *at > now && !has_issued).unwrap_or((now, rotation));
        Ok((!servers.is_empty()).then_some(Certificates { updated, rotate_at }))
    }

    async fn issue(&self, pass: &Pass<'_>, server: &serving::Server, now: Timestamp) -> Result<(), String> {
        let issued = issue(&wanted(server), now).map_err(|error| error.to_string())?;
        let bytes = |text: String| ByteString(text.into_bytes());
        let secret = Secret {
            metadata: kube::api::ObjectMeta {
                name: Some(server.secret.clone()),
                namespace: Some(pass.namespace.clone()),
                labels: Some([(MANAGED_LABEL.to_owned(), "true".to_owned())].into()),
                annotations: Some([(CA_HASH_ANNOTATION.to_owned(), hash(&issued.authority))].into()),
                owner_references: Some(vec![install::owner(pass.csv)]),
                ..kube::api::ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(
                [
                    ("tls.crt".to_owned(), bytes(issued.pair.certificate)),
                    ("tls.key".to_owned(), bytes(issued.pair.key)),
                    (AUTHORITY_KEY.to_owned(), bytes(issued.authority)),
                ]
                .into(),
            ),
            ..Secret::default()
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &pass.namespace);
        self.make(&api, &secret, pass).await
    }

    /// Writes an object of the operator's namespace. One that belongs to something else is left alone; that of a version of
    /// the chain is taken over.
    async fn make<K>(&self, api: &Api<K>, object: &K, pass: &Pass<'_>) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let csvs = self.siblings(pass);
        let mut chain = Siblings::of(&csvs).predecessors(pass.csv);
        chain.insert(&pass.name);
        let ours =
            |found: &K| found.owner_references().iter().any(|owner| chain.contains(owner.name.as_str()));
        done(ensure(api, object, ours, contains).await, &object.name_any())
    }

    async fn make_permission(&self, pass: &Pass<'_>, object: Value) -> Result<(), String> {
        let client = self.client.clone();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let unread = |error: serde_json::Error| error.to_string();
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if kind == "Role" {
            let role: Role = serde_json::from_value(object).map_err(unread)?;
            return self.make(&Api::namespaced(client, &namespace), &role, pass).await;
        }
        if kind == "RoleBinding" && namespace == pass.namespace {
            let binding: RoleBinding = serde_json::from_value(object).map_err(unread)?;
            return self.make(&Api::namespaced(client, &namespace), &binding, pass).await;
        }
        if kind == "RoleBinding" {
            let binding: RoleBinding = serde_json::from_value(object).map_err(unread)?;
            let owner = owner_of(binding.labels());
            let api = Api::<RoleBinding>::namespaced(client, &namespace);
            let result =
                ensure(&api, &binding, |found| owner_of(found.labels())[..2] == owner[..2], contains).await;
            return done(result, &binding.name_any());
        }
        let binding: ClusterRoleBinding = serde_json::from_value(object).map_err(unread)?;
        let owner = owner_of(binding.labels());
        let api = Api::<ClusterRoleBinding>::all(client);
        let result =
            ensure(&api, &binding, |found| owner_of(found.labels())[..2] == owner[..2], contains).await;
        done(result, &binding.name_any())
    }

    /// Registers webhooks and APIServices with the API server.
    pub(super) async fn make_registrations(
        &self,
        pass: &Pass<'_>,
        group: &Group,
        now: Timestamp,
    ) -> Result<(), String> {
        let authorities = self.authorities(pass, now).await?.unwrap_or_default();
        let api: Api<APIService> = Api::all(self.client.clone());
        for object in serving::api_services(pass.csv, &authorities.bundles) {
            let service: APIService = serde_json::from_value(object).map_err(|error| error.to_string())?;
            let ours = |found: &APIService| self.is_adoptable(pass, found);
            done(ensure(&api, &service, ours, contains).await, &service.name_any())?;
        }
        for webhook in pass.csv.spec.webhookdefinitions.iter().flatten() {
            let bundle = webhook.deployment_name.as_ref().and_then(|name| authorities.bundles.get(name));
            let Some(bundle) = bundle else { continue };
            let Some(object) = serving::webhook_configuration(pass.csv, webhook, group, bundle) else {
                continue;
            };
            match webhook.type_ {
                WebhookType::ValidatingAdmissionWebhook => {
                    self.register::<ValidatingWebhookConfiguration>(pass, webhook, object).await?;
                }
                _ => self.register::<MutatingWebhookConfiguration>(pass, webhook, object).await?,
            }
        }
        Ok(())
    }

    async fn register<K>(
        &self,
        pass: &Pass<'_>,
        webhook: &WebhookDescription,
        object: Value,
    ) -> Result<(), String>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let failed = |error: kube::Error| format!("webhook {}: {}", webhook.generate_name, api_text(&error));
        let found = self.registered(&api, pass, webhook).await.map_err(failed)?;
        let Some(found) = found else {
            let object: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
            return bounded(api.create(&post_as(FIELD_MANAGER), &object)).await.map(drop).map_err(failed);
        };
        let known = serde_json::to_value(&found).unwrap_or_default();
        if contains(&known["webhooks"], &object["webhooks"]) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"resourceVersion": found.resource_version(), "labels": object["metadata"]["labels"]},
            "webhooks": object["webhooks"],
        });
        let patched =
            bounded(api.patch(&found.name_any(), &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
        patched.map(drop).map_err(failed)
    }

    async fn registered<K>(
        &self,
        api: &Api<K>,
        pass: &Pass<'_>,
        webhook: &WebhookDescription,
    ) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let labels = serving::webhook_labels(pass.csv, webhook);
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut found = bounded(api.list(&ListParams::default().labels(&labels.join(",")))).await?.items;
        found.sort_by_key(ResourceExt::name_any);
        Ok(found.into_iter().next())
    }

    /// Whether the operator's webhooks are registered. Conversion is not served.
    pub(super) async fn webhooks(&self, pass: &Pass<'_>) -> Result<Webhooks, String> {
        for webhook in pass.csv.spec.webhookdefinitions.iter().flatten() {
            let client = self.client.clone();
            let found = match webhook.type_ {
                WebhookType::ValidatingAdmissionWebhook => {
                    let api = Api::<ValidatingWebhookConfiguration>::all(client);
                    self.registered(&api, pass, webhook).await.map(|found| found.is_some())
                }
                WebhookType::MutatingAdmissionWebhook => {
                    let api = Api::<MutatingWebhookConfiguration>::all(client);
                    self.registered(&api, pass, webhook).await.map(|found| found.is_some())
                }
                WebhookType::ConversionWebhook => Ok(false),
            };
            match found {
                Ok(true) => {}
                Ok(false) => return Ok(Webhooks::Missing),
                Err(error) => return Ok(Webhooks::Failed(api_text(&error))),
            }
        }
        Ok(Webhooks::Installed)
    }

    /// Whether an APIService is the operator's, or that of a version which it takes the place of.
    fn is_adoptable(&self, pass: &Pass<'_>, service: &APIService) -> bool {
        let [Some(kind), Some(namespace), Some(name)] = owner_of(service.labels()) else { return false };
        let csvs = self.siblings(pass);
        let is_chain =
            *name == pass.name || Siblings::of(&csvs).predecessors(pass.csv).contains(name.as_str());
        kind == "ClusterServiceVersion" && *namespace == pass.namespace && is_chain
    }

    /// The APIServices that the operator owns.
    pub(super) async fn api_services(&self, pass: &mut Pass<'_>) -> Result<ApiServices, String> {
        let mut all = ApiServices::default();
        let api: Api<APIService> = Api::all(self.client.clone());
        let phase = olm_classic_core::csv::chain::phase(pass.csv);
        for one in pass.csv.spec.apiservicedefinitions.iter().flat_map(|all| &all.owned) {
            let name = format!("{}.{}", one.version, one.group);
            pass.interests.insert(Interest::Definition(name.clone()));
            let found = bounded(api.get_opt(&name)).await;
            match found.map_err(|error| format!("reading APIService {name}: {}", api_text(&error)))? {
                None if phase != olm_classic_core::csv::Phase::Pending => {
                    all.faults.push(format!("apiservices.apiregistration.k8s.io \"{name}\" not found"));
                }
                None => {}
                Some(found) if !self.is_adoptable(pass, &found) => {
                    all.unadoptable.push(format!("pre-existing APIService {name} is not adoptable"));
                }
                Some(found) => {
                    let is_served = is_available(&found)
                        && self.kinds(&one.group, &one.version).await.contains(&one.kind);
                    if !is_served {
                        all.availability = Availability::Unavailable;
                    }
                }
            }
        }
        Ok(all)
    }
}

fn wanted(server: &serving::Server) -> Wanted<'_> {
    Wanted { common_name: &server.service, names: &server.names, lifetime: LIFETIME, settle_max: EARLY }
}

fn hash(authority: &str) -> String {
    hex(&Sha256::digest(authority.as_bytes()))
}

fn done(result: Result<(), WriteError>, name: &str) -> Result<(), String> {
    match result {
        Ok(()) => Ok(()),
        Err(WriteError::Foreign(text)) => Err(text),
        Err(WriteError::Api(error)) => Err(format!("writing {name}: {}", api_text(&error))),
    }
}
