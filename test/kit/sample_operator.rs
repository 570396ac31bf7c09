//! Bundles of the sample operator, whose program runs in Pods: a kind in two versions and a webhook of each type.
//!
//! Names that are the cluster's own (CRD, roles, webhook configurations) are derived from the package's, so that
//! several can be installed in one cluster.

use crate::{
    bundle::{crd_with_versions, deployment, webhook},
    catalog::chain,
    prelude::*,
};

/// The program's name, and its image's.
pub const PROGRAM: &str = "olm-sample-operator";
/// Versions in upgrade order. Each says in the status of its objects which one it is.
pub const VERSIONS: [&str; 4] = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"];
/// The port on which the program's webhooks listen.
const WEBHOOK_PORT: u16 = 9443;
/// The port of the program's probes.
const HEALTH_PORT: u16 = 8081;

/// A package of the sample operator.
#[derive(Clone, Debug)]
pub struct SampleOperator {
    /// Name of the package, of its Deployment and of its ServiceAccount.
    pub package: String,
    /// API group of its kind.
    pub group: String,
    /// Where nodes find the program.
    pub image: String,
}

impl SampleOperator {
    /// The package `name` with the API group `<name>.example.com`; the program is in the image `image`.
    pub fn new(name: &str, image: &str) -> Self {
        Self { package: name.to_owned(), group: format!("{name}.example.com"), image: image.to_owned() }
    }

    /// Name of its CRD.
    pub fn crd_name(&self) -> String {
        format!("samples.{}", self.group)
    }

    /// An object of version `v1`, which says `message`; without `copies` the operator fills the number in.
    pub fn object_v1(&self, name: &str, message: &str, copies: Option<i64>) -> Value {
        let mut object = json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Sample",
            "metadata": {"name": name}, "spec": {"message": message},
        });
        if let Some(copies) = copies {
            object["spec"]["copies"] = copies.into();
        }
        object
    }

    /// A bundle.
    pub fn bundle(&self, version: &str) -> Bundle {
        let (name, group) = (&self.package, &self.group);
        let rules = json!([
            {"apiGroups": [group], "resources": ["samples"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [group], "resources": ["samples/status"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "patch", "watch"]},
        ]);
        let bundle = Bundle::new(name, version)
            .annotation("capabilities", "Basic Install")
            .contains(self.crd(version))
            .operator(self.deployment(version), &rules);
        self.webhooks().into_iter().fold(bundle, Bundle::webhook)
    }

    /// Pushes bundles of these versions, and a catalog of them as `<package>-catalog:<tag>`, each replacing the one
    /// before; answers the catalog's reference by digest.
    pub async fn push(&self, images: &Images, versions: &[&str], tag: &str) -> Result<String> {
        let mut bundles = Vec::new();
        for version in versions {
            let name = format!("{}-bundle:v{version}", self.package);
            bundles.push((*version, images.push_made(&self.bundle(version), &name).await?));
        }
        let listed: Vec<(&str, &str)> =
            bundles.iter().map(|(version, image)| (*version, image.as_str())).collect();
        images.push_catalog(&chain(&self.package, &listed), &format!("{}-catalog:{tag}", self.package)).await
    }

    fn webhooks(&self) -> [Value; 3] {
        let serve = |kind: &str, prefix: &str, path: &str, mut more: Value| {
            more["targetPort"] = WEBHOOK_PORT.into();
            more["webhookPath"] = path.into();
            webhook(kind, &format!("{prefix}.{}", self.group), &self.package, more)
        };
        let rules = json!([{
            "apiGroups": [self.group], "apiVersions": ["v1", "v2"], "operations": ["CREATE", "UPDATE"],
            "resources": ["samples"],
        }]);
        let admission = json!({"timeoutSeconds": 10, "rules": rules});
        [
            serve("ValidatingAdmissionWebhook", "validate", "/validate", admission.clone()),
            serve("MutatingAdmissionWebhook", "default", "/default", admission),
            serve("ConversionWebhook", "convert", "/convert", json!({"conversionCRDs": [self.crd_name()]})),
        ]
    }

    fn deployment(&self, version: &str) -> Value {
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": HEALTH_PORT}, "periodSeconds": 2});
        let mut deployment = deployment(&self.package, &self.image);
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["securityContext"] = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        pod["containers"][0] = json!({
            "name": "manager", "image": self.image, "imagePullPolicy": "IfNotPresent",
            "args": [format!("--operator-version={version}"), format!("--group={}", self.group)],
            "ports": [{"name": "webhooks", "containerPort": WEBHOOK_PORT}],
            "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        });
        deployment
    }

    fn crd(&self, version: &str) -> Value {
        let status = json!({"type": "object", "properties": {
            "configMap": {"type": "string"}, "copies": {"type": "integer"},
            "operatorVersion": {"type": "string"}, "observedGeneration": {"type": "integer", "format": "int64"},
        }});
        let schema = |field: &str, schema: Value| {
            json!({"type": "object", "required": ["spec"], "properties": {
                "spec": {
                    "type": "object", "required": [field],
                    "properties": {field: schema, "copies": {"type": "integer", "format": "int64"}},
                },
                "status": status,
            }})
        };
        let text = json!({"type": "string"});
        let content = json!({"type": "object", "required": ["text"], "properties": {"text": text}});
        let versions = [("v1", schema("message", text.clone())), ("v2", schema("content", content))];
        let mut crd = crd_with_versions(&self.group, "Sample", &versions);
        crd["metadata"]["annotations"] = json!({"sample-operator-version": version});
        for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["subresources"] = json!({"status": {}});
            version["additionalPrinterColumns"] =
                json!([{"name": "Operator", "type": "string", "jsonPath": ".status.operatorVersion"}]);
        }
        crd
    }
}
