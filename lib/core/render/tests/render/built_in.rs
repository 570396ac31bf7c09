//! The provider without objects of its own.

use olm_render::{CertificateProvider, Options, WebhookCertificate, webhook_certificates};
use serde_json::{Value, json};

use crate::builder::{bundle, find, webhook};

fn options(certificate_provider: CertificateProvider) -> Options {
    Options { certificate_provider, ..Options::new("ns") }
}

#[test]
fn deployments_and_services_are_those_of_cert_manager_and_nothing_is_annotated() {
    let mut conversion = webhook("ConversionWebhook", "c");
    conversion["conversionCRDs"] = json!(["samples.x.io"]);
    let sample = bundle().webhooks(json!([webhook("ValidatingAdmissionWebhook", "v"), conversion]));
    let theirs = sample.render_with(&options(CertificateProvider::CertManager)).unwrap();
    let ours = sample.render_with(&options(CertificateProvider::BuiltIn)).unwrap();
    assert_eq!(ours.certificate_provider, Some(CertificateProvider::BuiltIn));
    for (kind, name) in [("Deployment", "manager"), ("Service", "manager-service")] {
        assert_eq!(find(&ours, kind, name), find(&theirs, kind, name));
    }
    for (kind, name) in
        [("ValidatingWebhookConfiguration", "v"), ("CustomResourceDefinition", "samples.x.io")]
    {
        let mut unannotated = find(&theirs, kind, name).clone();
        unannotated["metadata"].as_object_mut().unwrap().remove("annotations");
        assert_eq!(find(&ours, kind, name), &unannotated);
    }
    assert!(!ours.objects.iter().any(|object| object["apiVersion"] == "cert-manager.io/v1"));
}

#[test]
fn the_certificates_that_deployments_mount_are_told() {
    let wanted = [WebhookCertificate {
        namespace: "ns".to_owned(),
        service: "manager-service".to_owned(),
        secret: "manager-service-cert".to_owned(),
        dns_names: ["manager-service.ns", "manager-service.ns.svc", "manager-service.ns.svc.cluster.local"]
            .map(str::to_owned)
            .to_vec(),
    }];
    // A webhook of an unknown type renders no configuration, but its Deployment waits for the Secret.
    for kind in ["MutatingAdmissionWebhook", "Unheard"] {
        let sample = bundle().webhooks(json!([webhook(kind, "w")]));
        let rendered = sample.render_with(&options(CertificateProvider::BuiltIn)).unwrap();
        assert_eq!(webhook_certificates(&rendered.objects), wanted);
    }
    let none = bundle().render().unwrap();
    assert_eq!((webhook_certificates(&none.objects), none.certificate_provider), (Vec::new(), None));
    assert_eq!(webhook_certificates(&[Value::Null, json!({"kind": "Deployment"})]), []);
}

#[test]
fn providers_have_names() {
    use CertificateProvider::{BuiltIn, CertManager, None as Nobody, OpenshiftServiceCa};
    for provider in [Nobody, CertManager, OpenshiftServiceCa, BuiltIn] {
        assert_eq!(CertificateProvider::named(provider.as_str()), Some(provider));
    }
    assert_eq!(CertificateProvider::named("auto"), None);
}
