//! Webhooks and APIServices of an operator: certificates, what stands behind them, and how the API server finds them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Secret, Service},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Resource, ResourceExt};
use olm_api_classic::names::MANAGED_LABEL;
use olm_certs::{Content, Pair, Step, Wanted, issue};
use olm_classic_core::{
    csv::{
        Certificates,
        chain::Siblings,
        install::{self, deployments::CA_HASH_ANNOTATION, serving},
    },
    group::membership::Group,
};
use olm_object::hex;
use olm_runtime::{api_text, bounded};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Observed, Reconciler, api_services::not_found, install::Authorities};
use crate::{
    objects::{WriteError, contains, ensure},
    operator_groups::owner_of,
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
        observed: &Observed<'_>,
        now: Timestamp,
    ) -> Result<Option<Authorities>, String> {
        observed.authorities.get_or_try_init(|| self.read_authorities(observed, now)).await.cloned()
    }

    /// See [`Self::authorities`], which asks once in a reconcile.
    async fn read_authorities(
        &self,
        observed: &Observed<'_>,
        now: Timestamp,
    ) -> Result<Option<Authorities>, String> {
        let mut all = Authorities::default();
        for server in serving::servers(observed.csv) {
            let Some(authority) = self.authority(observed, &server, now).await? else { return Ok(None) };
            all.hashes.insert(server.deployment.clone(), hash(&authority));
            all.bundles.insert(server.deployment, STANDARD.encode(&authority));
        }
        Ok(Some(all))
    }

    /// The authority of a server whose certificate is good.
    async fn authority(
        &self,
        observed: &Observed<'_>,
        server: &serving::Server,
        now: Timestamp,
    ) -> Result<Option<String>, String> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &observed.namespace);
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

    pub(super) async fn are_certificates_due(
        &self,
        observed: &Observed<'_>,
        now: Timestamp,
    ) -> Result<bool, String> {
        let is_rotation = serving::is_rotation_due(observed.csv, now);
        Ok(is_rotation || self.authorities(observed, now).await?.is_none())
    }

    /// What a server is reached by and reads its certificate with, and is missing; none if all of it is there.
    pub(super) async fn is_lost(
        &self,
        observed: &Observed<'_>,
        server: &serving::Server,
    ) -> Result<Option<String>, String> {
        let namespace = &observed.namespace;
        Ok(if self.read::<Service>(namespace, &server.service).await?.is_none() {
            Some(not_found::<Service>(&server.service))
        } else if self.read::<Role>(namespace, &server.secret).await?.is_none() {
            Some(not_found::<Role>(&server.secret))
        } else if self.read::<RoleBinding>(namespace, &server.secret).await?.is_none() {
            Some(not_found::<RoleBinding>(&server.secret))
        } else {
            None
        })
    }

    /// Makes certificates, Services and permissions of the operator's servers.
    pub(super) async fn make_servers(
        &self,
        observed: &Observed<'_>,
        now: Timestamp,
    ) -> Result<Option<Certificates>, String> {
        let servers = serving::servers(observed.csv);
        let mut has_issued = false;
        let is_rotation = serving::is_rotation_due(observed.csv, now);
        for server in &servers {
            if is_rotation || self.authority(observed, server, now).await?.is_none() {
                self.issue(observed, server, now).await?;
                has_issued = true;
            }
            let api: Api<Service> = Api::namespaced(observed.writer.clone(), &observed.namespace);
            self.make(&api, &serving::service(observed.csv, server), observed).await?;
            for object in serving::permissions(observed.csv, server) {
                self.make_permission(observed, object).await?;
            }
        }
        let rotation =
            now + jiff::SignedDuration::try_from(LIFETIME.saturating_sub(EARLY)).unwrap_or_default();
        let known = observed.csv.status.as_ref().and_then(|status| {
            Some((status.certs_last_updated.as_ref()?.0, status.certs_rotate_at.as_ref()?.0))
        });
        let (updated, rotate_at) =
            known.filter(|(_, at)| *at > now && !has_issued).unwrap_or((now, rotation));
        Ok((!servers.is_empty()).then_some(Certificates { updated, rotate_at }))
    }

    async fn issue(
        &self,
        observed: &Observed<'_>,
        server: &serving::Server,
        now: Timestamp,
    ) -> Result<(), String> {
        let issued = issue(&wanted(server), now).map_err(|error| error.to_string())?;
        let bytes = |text: String| ByteString(text.into_bytes());
        let secret = Secret {
            metadata: kube::api::ObjectMeta {
                name: Some(server.secret.clone()),
                namespace: Some(observed.namespace.clone()),
                labels: Some([(MANAGED_LABEL.to_owned(), "true".to_owned())].into()),
                annotations: Some([(CA_HASH_ANNOTATION.to_owned(), hash(&issued.authority))].into()),
                owner_references: Some(vec![install::owner(observed.csv)]),
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
        let api: Api<Secret> = Api::namespaced(observed.writer.clone(), &observed.namespace);
        self.make(&api, &secret, observed).await
    }

    /// Writes an object of the operator's namespace. One that belongs to something else is left alone; that of a version of
    /// the chain is taken over.
    async fn make<K>(&self, api: &Api<K>, object: &K, observed: &Observed<'_>) -> Result<(), String>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let csvs = self.siblings(observed);
        let mut chain = Siblings::of(&csvs).predecessors(observed.csv);
        chain.insert(&observed.name);
        let ours =
            |found: &K| found.owner_references().iter().any(|owner| chain.contains(owner.name.as_str()));
        done(ensure(api, object, ours, contains).await, &object.name_any())
    }

    async fn make_permission(&self, observed: &Observed<'_>, object: Value) -> Result<(), String> {
        let client = observed.writer.clone();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let unread = |error: serde_json::Error| error.to_string();
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if kind == "Role" {
            let role: Role = serde_json::from_value(object).map_err(unread)?;
            return self.make(&Api::namespaced(client, &namespace), &role, observed).await;
        }
        if kind == "RoleBinding" && namespace == observed.namespace {
            let binding: RoleBinding = serde_json::from_value(object).map_err(unread)?;
            return self.make(&Api::namespaced(client, &namespace), &binding, observed).await;
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
        observed: &Observed<'_>,
        group: &Group,
        now: Timestamp,
    ) -> Result<(), String> {
        let authorities = self.authorities(observed, now).await?.unwrap_or_default();
        let api: Api<APIService> = Api::all(observed.writer.clone());
        for object in serving::api_services(observed.csv, &authorities.bundles) {
            let service: APIService = serde_json::from_value(object).map_err(|error| error.to_string())?;
            let ours = |found: &APIService| self.is_adoptable(observed, found);
            done(ensure(&api, &service, ours, contains).await, &service.name_any())?;
        }
        self.make_webhooks(observed, group, &authorities.bundles).await
    }
}

fn wanted(server: &serving::Server) -> Wanted<'_> {
    Wanted { common_name: &server.service, names: &server.names, lifetime: LIFETIME, settle_max: EARLY }
}

pub(super) fn hash(authority: &str) -> String {
    hex(&Sha256::digest(authority.as_bytes()))
}

fn done(result: Result<(), WriteError>, name: &str) -> Result<(), String> {
    match result {
        Ok(()) => Ok(()),
        Err(WriteError::Foreign(text)) => Err(text),
        Err(WriteError::Api(error)) => Err(format!("writing {name}: {}", api_text(&error))),
    }
}
