//! Bundles of the sample operator, whose program runs in Pods: a kind in two versions and a webhook of each type.
//!
//! Names that are the cluster's own (CRD, roles, webhook configurations) are derived from the package's, so that
//! several can be installed in one cluster.

use std::{fs, path::Path};

use anyhow::Result;
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::images::{Images, catalog};

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

    /// Name of a bundle.
    pub fn bundle_name(&self, version: &str) -> String {
        format!("{}.v{version}", self.package)
    }

    /// Its kind in version `v1` or `v2`.
    pub fn resource(&self, version: &str) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: version.to_owned(),
            api_version: format!("{}/{version}", self.group),
            kind: "Sample".to_owned(),
            plural: "samples".to_owned(),
        }
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

    /// Writes a bundle into a folder.
    pub fn write_bundle(&self, folder: &Path, version: &str) -> Result<()> {
        for part in ["manifests", "metadata"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("manifests/csv.json"), format!("{:#}", self.csv(version)))?;
        fs::write(folder.join("manifests/crd.json"), format!("{:#}", self.crd(version)))?;
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": self.package,
            "operators.operatorframework.io.bundle.channels.v1": "stable",
        }});
        fs::write(folder.join("metadata/annotations.yaml"), format!("{annotations:#}"))?;
        Ok(())
    }

    /// Pushes bundles of these versions, and a catalog of them as `<package>-catalog:<tag>`, each replacing the one
    /// before; answers the catalog's reference by digest.
    pub async fn push(&self, images: &Images, versions: &[&str], tag: &str) -> Result<String> {
        let mut bundles = Vec::new();
        for version in versions {
            let folder = tempfile::tempdir()?;
            self.write_bundle(folder.path(), version)?;
            let name = format!("{}-bundle:v{version}", self.package);
            bundles.push((*version, images.push_bundle(folder.path(), &name).await?));
        }
        let listed: Vec<(&str, &str)> =
            bundles.iter().map(|(version, image)| (*version, image.as_str())).collect();
        images
            .push_catalog(&catalog(&self.package, &listed), &format!("{}-catalog:{tag}", self.package))
            .await
    }

    fn csv(&self, version: &str) -> Value {
        let (name, group) = (&self.package, &self.group);
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
            .map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}));
        let permissions = json!([{"serviceAccountName": name, "rules": [
            {"apiGroups": [group], "resources": ["samples"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [group], "resources": ["samples/status"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "patch", "watch"]},
        ]}]);
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.bundle_name(version), "annotations": {"capabilities": "Basic Install"}},
            "spec": {
                "displayName": "Sample", "description": "Makes a ConfigMap for each Sample.", "version": version,
                "maturity": "stable", "provider": {"name": "olm"}, "installModes": modes,
                "customresourcedefinitions": {"owned": [
                    {"name": self.crd_name(), "kind": "Sample", "version": "v1", "displayName": "Sample"},
                    {"name": self.crd_name(), "kind": "Sample", "version": "v2", "displayName": "Sample"},
                ]},
                "webhookdefinitions": self.webhooks(),
                "install": {"strategy": "deployment", "spec": {
                    "clusterPermissions": permissions,
                    "deployments": [{"name": name, "spec": self.deployment(version)}],
                }},
            },
        })
    }

    fn webhooks(&self) -> Value {
        let admission = |kind: &str, prefix: &str, path: &str| {
            json!({
                "type": kind, "generateName": format!("{prefix}.{}", self.group), "deploymentName": self.package,
                "containerPort": 443, "targetPort": WEBHOOK_PORT, "webhookPath": path, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 10,
                "rules": [{
                    "apiGroups": [self.group], "apiVersions": ["v1", "v2"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["samples"],
                }],
            })
        };
        json!([
            admission("ValidatingAdmissionWebhook", "validate", "/validate"),
            admission("MutatingAdmissionWebhook", "default", "/default"),
            {
                "type": "ConversionWebhook", "generateName": format!("convert.{}", self.group),
                "deploymentName": self.package, "containerPort": 443, "targetPort": WEBHOOK_PORT,
                "webhookPath": "/convert", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "conversionCRDs": [self.crd_name()],
            },
        ])
    }

    fn deployment(&self, version: &str) -> Value {
        let labels = json!({"app": self.package});
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": HEALTH_PORT}, "periodSeconds": 2});
        json!({
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": self.package,
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": "manager", "image": self.image, "imagePullPolicy": "IfNotPresent",
                        "args": [format!("--operator-version={version}"), format!("--group={}", self.group)],
                        "ports": [{"name": "webhooks", "containerPort": WEBHOOK_PORT}],
                        "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
                        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }],
                },
            },
        })
    }

    fn crd(&self, version: &str) -> Value {
        let status = json!({"type": "object", "properties": {
            "configMap": {"type": "string"}, "copies": {"type": "integer"},
            "operatorVersion": {"type": "string"}, "observedGeneration": {"type": "integer", "format": "int64"},
        }});
        let served = |name: &str, text: (&str, Value)| {
            let (field, schema) = text;
            json!({
                "name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
                    "spec": {
                        "type": "object", "required": [field],
                        "properties": {field: schema, "copies": {"type": "integer", "format": "int64"}},
                    },
                    "status": status,
                }}},
                "additionalPrinterColumns": [
                    {"name": "Operator", "type": "string", "jsonPath": ".status.operatorVersion"},
                ],
            })
        };
        let text = json!({"type": "string"});
        let content = json!({"type": "object", "required": ["text"], "properties": {"text": text}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name(), "annotations": {"sample-operator-version": version}},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"plural": "samples", "singular": "sample", "kind": "Sample", "listKind": "SampleList"},
                "versions": [served("v1", ("message", text.clone())), served("v2", ("content", content))],
            },
        })
    }
}
