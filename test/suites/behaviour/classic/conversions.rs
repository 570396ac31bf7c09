//! Conversion webhooks of operators.

use k8s_openapi::{
    api::core::v1::Secret,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition,
    },
};
use olm_test::prelude::*;

use crate::operators::{Operators, Place, define, provides};

/// The fields of an operator that converts its kind.
fn converting(plural: &str, kind: &str, modes: &[(&str, bool)]) -> Value {
    let mut fields = provides(plural, kind);
    fields["installModes"] =
        modes.iter().map(|(mode, supported)| json!({"type": mode, "supported": supported})).collect();
    fields["webhookdefinitions"] = json!([{
        "type": "ConversionWebhook", "generateName": format!("{plural}.example.com"), "deploymentName": "a-v1",
        "containerPort": 443, "targetPort": 9443, "webhookPath": "/convert", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "conversionCRDs": [format!("{plural}.operators.example.com")],
    }]);
    fields
}

const ALL: [(&str, bool); 2] = [("AllNamespaces", true), ("OwnNamespace", false)];

async fn conversion(place: &Place, plural: &str) -> Result<CustomResourceConversion> {
    let crds: Api<CustomResourceDefinition> = Api::all(place.client.clone());
    let crd = crds.get(&format!("{plural}.operators.example.com")).await?;
    crd.spec.conversion.context("no conversion")
}

/// The authority of the conversion; none if it is not done by the operator's Service.
async fn bundle(place: &Place, plural: &str) -> Result<Option<Vec<u8>>> {
    let config = conversion(place, plural).await?.webhook.and_then(|webhook| webhook.client_config);
    let service = config.as_ref().and_then(|config| config.service.clone());
    let is_own = service.is_some_and(|service| {
        (service.namespace.as_str(), service.name.as_str(), service.path.as_deref(), service.port)
            == (&place.namespace, "a-v1-service", Some("/convert"), Some(443))
    });
    Ok(config.filter(|_| is_own).and_then(|config| config.ca_bundle).map(|bundle| bundle.0))
}

async fn set(place: &Place, plural: &str, conversion: Value) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(place.client.clone());
    let patch = Patch::Merge(json!({"spec": {"conversion": conversion}}));
    crds.patch(&format!("{plural}.operators.example.com"), &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_converts_what_it_owns_until_it_is_deleted() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "torches", "Torch")?;
    let place = world.place("converting").await?;
    place.group(json!({})).await?;
    place.operator("a.v1", converting("torches", "Torch", &ALL)).await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let is_current = async || -> Result<bool> {
        let secret = secrets.get_opt("a-v1-service-cert").await?;
        let authority = secret.and_then(|secret| secret.data?.get("olmCAKey").map(|key| key.0.clone()));
        Ok(authority.is_some() && bundle(&place, "torches").await? == authority)
    };
    ensure!(is_current().await?, "{:?}", conversion(&place, "torches").await?);
    // A conversion that is lost comes back.
    set(&place, "torches", json!({"strategy": "None", "webhook": null})).await?;
    let current = |what: &'static str| {
        wait::until(what, DEADLINE, || async {
            wait::check(is_current().await?, || "another one".to_owned())
        })
    };
    current("the conversion to come back").await?;
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    // Another certificate is another authority.
    let before = bundle(&place, "torches").await?;
    secrets.delete("a-v1-service-cert", &DeleteParams::default()).await?;
    current("the new authority").await?;
    ensure!(bundle(&place, "torches").await? != before);
    place.shows("a.v1", "Succeeded/InstallSucceeded").await?;
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    place.gone("a.v1").await?;
    let left = conversion(&place, "torches").await?;
    ensure!(left.strategy == "None" && left.webhook.is_none(), "{left:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_must_not_convert_stays_as_it_is() -> Result<()> {
    let world = Operators::shared().await?;
    define(&world.cluster, "candles", "Candle")?;
    let place = world.place("refused").await?;
    place.group(json!({})).await?;
    let both = [("AllNamespaces", true), ("OwnNamespace", true)];
    place.operator("a.v1", converting("candles", "Candle", &both)).await?;
    let csv = place.shows("a.v1", "Failed/InstallComponentFailed").await?;
    let message = csv.status.and_then(|status| status.message).unwrap_or_default();
    ensure!(message.ends_with("CSVs with conversion webhooks must support only AllNamespaces"), "{message}");
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    place.gone("a.v1").await?;
    // Something else converts it, which did not come with the operator.
    let other = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
        "service": {"namespace": "elsewhere", "name": "converter"},
    }}});
    set(&place, "candles", other).await?;
    let before = conversion(&place, "candles").await?;
    place.operator("a.v1", converting("candles", "Candle", &ALL)).await?;
    let csv = place.shows("a.v1", "Failed/InstallComponentFailed").await?;
    let message = csv.status.and_then(|status| status.message).unwrap_or_default();
    ensure!(message.contains("is converted by Service elsewhere/converter"), "{message}");
    place.csvs.delete("a.v1", &DeleteParams::default()).await?;
    place.gone("a.v1").await?;
    ensure!(conversion(&place, "candles").await? == before, "it was changed");
    Ok(())
}
