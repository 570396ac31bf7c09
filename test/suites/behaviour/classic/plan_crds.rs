//! Steps of CRDs: what becomes of stored objects, and in whose name definitions are written.

use k8s_openapi::api::{core::v1::Event, rbac::v1::ClusterRoleBinding};
use olm_api_classic::InstallPlan;
use olm_test::{bundle, classic::USER, cluster::AuditEvent, prelude::*};

use crate::{install_plans::condition, tenant::Tenant};

impl Tenant {
    fn api_group(&self) -> String {
        format!("{}.example.com", self.namespace)
    }

    /// Objects of the kind Lamp.
    fn lamps(&self) -> Api<DynamicObject> {
        let kind = kube::api::ApiResource::from_gvk_with_plural(
            &kube::api::GroupVersionKind::gvk(&self.api_group(), "v1", "Lamp"),
            "lamps",
        );
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }

    async fn lamp(&self, name: &str, size: u32) -> Result<()> {
        let lamp = json!({
            "apiVersion": format!("{}/v1", self.api_group()), "kind": "Lamp", "metadata": {"name": name},
            "spec": {"size": size},
        });
        self.lamps().create(&PostParams::default(), &serde_json::from_value(lamp)?).await?;
        Ok(())
    }

    async fn crd(&self) -> Result<CustomResourceDefinition> {
        Ok(Api::all(self.client.clone()).get(&format!("lamps.{}", self.api_group())).await?)
    }

    /// Installs the first bundle and offers the second.
    async fn upgrade(&self, bundles: &[Bundle; 2]) -> Result<()> {
        let source = self.offer(&bundles[..1]).await?;
        self.subscribe("lamp", json!({})).await?;
        self.shows("lamp", "Ready", "True/Installed").await?;
        source.patch(json!({"spec": {"image": self.catalog(bundles, "v2").await?}})).await
    }

    /// The notes of the Events about its InstallPlans with this reason.
    async fn notes(&self, reason: &str) -> Result<Vec<String>> {
        let events = self.api::<Event>().list(&ListParams::default()).await?.items;
        let of = |event: &Event| {
            event.involved_object.kind.as_deref() == Some("InstallPlan")
                && event.reason.as_deref() == Some(reason)
        };
        Ok(events.into_iter().filter(of).filter_map(|event| event.message).collect())
    }
}

/// A bundle with a CRD that has these most sizes at v1, which is stored, and at v2; a webhook without a server converts them.
fn converted(tenant: &Tenant, version: &str, most: [u32; 2]) -> Bundle {
    let schema = |most: u32| {
        let size = json!({"type": "integer", "maximum": most});
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}})
    };
    let mut crd = bundle::crd_with_versions(
        &tenant.api_group(),
        "Lamp",
        &[("v1", schema(most[0])), ("v2", schema(most[1]))],
    );
    let service = json!({"namespace": "default", "name": "absent", "path": "/convert"});
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}},
    });
    small("lamp", version).ships(crd)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_objects_a_crd_with_a_conversion_webhook_is_replaced() -> Result<()> {
    let tenant = Tenant::new("converts").await?;
    let bundles =
        [converted(&tenant, "1.0.0", [9, 9]), converted(&tenant, "1.1.0", [9, 3]).replaces("1.0.0")];
    tenant.upgrade(&bundles).await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.1.0", "lamp.v1.1.0"]).await?;
    let most = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/size/maximum";
    // The ClusterServiceVersion is the first step of a plan.
    let crd = async || Ok(serde_json::to_value(tenant.crd().await?)?);
    eventually("the new definition", crd, |crd| crd.pointer(most).and_then(Value::as_f64) == Some(3.0))
        .await?;
    ensure!(tenant.notes("CRDValidation").await?.is_empty(), "there was nothing to warn of");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_objects_it_is_replaced_with_a_warning() -> Result<()> {
    let tenant = Tenant::new("warns").await?;
    let bundles =
        [converted(&tenant, "1.0.0", [9, 9]), converted(&tenant, "1.1.0", [3, 3]).replaces("1.0.0")];
    let source = tenant.offer(&bundles[..1]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.shows("lamp", "Ready", "True/Installed").await?;
    tenant.lamp("bright", 5).await?;
    source.patch(json!({"spec": {"image": tenant.catalog(&bundles, "v2").await?}})).await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.1.0", "lamp.v1.1.0"]).await?;
    let object = format!("\"{}/bright\"", tenant.namespace);
    let undecided =
        format!("{}/v2, Kind=Lamp: undecided: a conversion webhook converts them", tenant.api_group());
    wait::until("the Events", DEADLINE, async || {
        let notes = tenant.notes("CRDValidation").await?;
        // The object is stored at v1, where it can be validated; what the webhook makes of it at v2 cannot be known.
        let restrictive = |note: &String| note.contains("too restrictive") && note.contains(&object);
        let has_both = notes.iter().any(restrictive) && notes.iter().any(|note| note.contains(&undecided));
        wait::check(has_both, || format!("{notes:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decided_stops_no_plan() -> Result<()> {
    let tenant = Tenant::new("undecided").await?;
    let size = |rules: Value| json!({"size": {"type": "integer", "x-kubernetes-validations": rules}});
    let lamp = |version: &str, rules: Value| {
        small("lamp", version).brings_with(&tenant.api_group(), "Lamp", &size(rules))
    };
    let rule = json!([{"rule": "!isURL(string(self))"}]);
    let bundles = [lamp("1.0.0", json!([])), lamp("1.1.0", rule).replaces("1.0.0")];
    let source = tenant.offer(&bundles[..1]).await?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.shows("lamp", "Ready", "True/Installed").await?;
    tenant.lamp("bright", 5).await?;
    source.patch(json!({"spec": {"image": tenant.catalog(&bundles, "v2").await?}})).await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.1.0", "lamp.v1.1.0"]).await?;
    wait::until("the Event", DEADLINE, async || {
        let notes = tenant.notes("CRDValidation").await?;
        wait::check(notes.iter().any(|note| note.contains("undecided for 1 of 1 object")), || {
            format!("{notes:?}")
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_continues_when_the_crd_that_stopped_it_changes() -> Result<()> {
    let tenant = Tenant::new("stored").await?;
    let versions = |versions: &[&str]| {
        let schema = json!({"type": "object"});
        let versions: Vec<_> = versions.iter().map(|version| (*version, schema.clone())).collect();
        bundle::crd_with_versions(&tenant.api_group(), "Lamp", &versions)
    };
    let bundles = [
        small("lamp", "1.0.0").ships(versions(&["v1", "v2"])),
        small("lamp", "1.1.0").ships(versions(&["v2"])).replaces("1.0.0"),
    ];
    tenant.upgrade(&bundles).await?;
    let ready = tenant.shows("lamp", "Ready", "False/InstallPlanFailed").await?;
    for wanted in ["risk of data loss updating", "remove this one from status.storedVersions of the CRD"] {
        ensure!(ready.contains(wanted), "{wanted}: {ready}");
    }
    let notes = tenant.notes("InstallComponentFailed").await?;
    ensure!(notes.iter().any(|note| note.contains("Migrate the stored objects")), "{notes:?}");
    let crds: Api<CustomResourceDefinition> = Api::all(tenant.client.clone());
    let name = format!("lamps.{}", tenant.api_group());
    let mut crd = tenant.crd().await?;
    for version in &mut crd.spec.versions {
        version.storage = version.name == "v2";
    }
    crds.replace(&name, &PostParams::default(), &crd).await?;
    let migrated = Patch::Merge(json!({"status": {"storedVersions": ["v2"]}}));
    crds.patch_status(&name, &PatchParams::default(), &migrated).await?;
    let begun = Instant::now();
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.1.0", "lamp.v1.1.0"]).await?;
    println!("continued after {} ms", begun.elapsed().as_millis());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_written_by_the_program_and_all_else_as_the_service_account() -> Result<()> {
    let tenant = Tenant::without_group("who").await?;
    let account = json!({"metadata": {"name": "installer"}});
    tenant.api::<ServiceAccount>().create(&PostParams::default(), &serde_json::from_value(account)?).await?;
    let subject = json!({"kind": "ServiceAccount", "name": "installer", "namespace": tenant.namespace});
    let binding = json!({
        "metadata": {"name": format!("installer-{}", tenant.namespace)}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(tenant.client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    tenant.group("group", json!({"serviceAccountName": "installer"})).await?;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let lamp = small("lamp", "1.0.0").brings(&tenant.api_group(), "Lamp");
    tenant.offer(&[lamp.rules("clusterPermissions", &json!("lamp"), &rules)]).await?;
    let mark = tenant.world.cluster.audit_mark()?;
    tenant.subscribe("lamp", json!({})).await?;
    tenant.shows("lamp", "Ready", "True/Installed").await?;
    let plan: InstallPlan = tenant.plan("lamp").await?;
    let status = plan.status.clone().unwrap_or_default();
    ensure!(condition(&plan, "Ready").starts_with("True/Complete"), "{:?}", status.conditions);
    let installer = format!("system:serviceaccount:{}:installer", tenant.namespace);
    // Other tests make objects of the same names in namespaces of their own.
    let is_here = |event: &AuditEvent| event.namespace.is_empty() || event.namespace == tenant.namespace;
    let step_of = |event: &AuditEvent| {
        let is = |kind: &str| is_here(event) && format!("{}s", kind.to_lowercase()) == event.resource;
        let mut steps = status.plan.iter().map(|step| &step.resource);
        steps.find(|one| is(&one.kind) && one.name == event.name).map(|one| one.kind.clone())
    };
    wait::until("all writes to be in the audit log", DEADLINE, async || {
        let mut writers = BTreeMap::new();
        for event in tenant.world.cluster.audit_events_since(mark)? {
            if event.verb == "create"
                && event.code == 201
                && let Some(kind) = step_of(&event)
            {
                writers.insert(kind, event.user);
            }
        }
        let wanted = |kind: &str| if kind == "CustomResourceDefinition" { USER } else { &installer };
        ensure!(writers.iter().all(|(kind, user)| user == wanted(kind)), "{writers:?}");
        let kinds: BTreeSet<_> = status.plan.iter().map(|step| step.resource.kind.clone()).collect();
        wait::check(writers.keys().eq(kinds.iter()), || format!("{writers:?} of {kinds:?}"))
    })
    .await
}

/// A plan that its Subscription no longer names is not continued, so no other may take its place before it is over.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_version_waits_while_a_definition_is_not_served() -> Result<()> {
    let tenant = Tenant::new("unserved").await?;
    // Two definitions cannot have one kind.
    let mut first = bundle::crd(&tenant.api_group(), "Lamp", &json!({}));
    first["metadata"]["name"] = format!("lanterns.{}", tenant.api_group()).into();
    first["spec"]["names"]["plural"] = "lanterns".into();
    first["spec"]["names"]["singular"] = "lantern".into();
    let crds: Api<CustomResourceDefinition> = Api::all(tenant.client.clone());
    crds.make(first.clone()).await?;
    let lamp = |version: &str| small("lamp", version).brings_with(&tenant.api_group(), "Lamp", &json!({}));
    tenant.offer(&[lamp("1.0.0"), lamp("1.1.0").replaces("1.0.0")]).await?;
    tenant.subscribe("lamp", json!({"startingCSV": "lamp.v1.0.0"})).await?;
    // The look that finds the version installed is also one for the next version.
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.0.0", "lamp.v1.0.0"]).await?;
    tenant.shows("lamp", "InstallPlanPending", "True/Installing").await?;
    let plan = tenant.plan("lamp").await?.name_any();
    ensure!(tenant.plans().await?.len() == 1, "another plan was made");
    crds.remove(first["metadata"]["name"].as_str().context("name")?).await?;
    tenant.is("lamp", ["AtLatestKnown", "lamp.v1.1.0", "lamp.v1.1.0"]).await?;
    let phase = tenant.api::<InstallPlan>().get(&plan).await?.status.context("status")?.phase;
    ensure!(phase == "Complete", "{plan} is {phase}");
    Ok(())
}
