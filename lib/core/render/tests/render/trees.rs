//! Any tree of files renders or is refused, the same way every time.

use olm_bundle::{Bundle, BundleFiles, MEMORY_BYTES_MAX};
use olm_render::{CertificateProvider, Options, render, render_for};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::builder::{ANNOTATIONS, bundle, crd, webhook};

/// A value of any type, with field names that bundles have.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.-]{0,70}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((field(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn field() -> impl Strategy<Value = String> {
    word_of(
        "kind apiVersion metadata name spec items install deployments permissions rules webhookdefinitions \
         template containers volumes versions schema annotations x",
    )
}

/// Where a value of the CSV may be replaced.
fn place() -> impl Strategy<Value = String> {
    word_of(
        "/metadata /metadata/name /metadata/annotations /kind /spec /spec/version /spec/installModes \
         /spec/install /spec/install/spec /spec/install/spec/permissions /spec/install/spec/permissions/0 \
         /spec/install/spec/deployments /spec/install/spec/deployments/0 \
         /spec/install/spec/deployments/0/spec /spec/install/spec/deployments/0/spec/template \
         /spec/install/spec/deployments/0/spec/template/spec /spec/customresourcedefinitions \
         /spec/webhookdefinitions /spec/webhookdefinitions/0",
    )
}

fn word_of(words: &'static str) -> impl Strategy<Value = String> {
    prop::sample::select(words.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned)
}

fn all_modes() -> Vec<Options> {
    let own = Options { config: Some(json!({"watchNamespace": "ns"})), ..Options::new("ns") };
    let built_in = Options { certificate_provider: CertificateProvider::BuiltIn, ..Options::new("ns") };
    let bare = Options { certificate_provider: CertificateProvider::None, ..Options::new("") };
    vec![Options::new("ns"), own, built_in, bare]
}

/// Renders in every way; answers are the same for the same tree.
fn renders(files: &BundleFiles) {
    for options in all_modes() {
        let rendered = || {
            let bundle = Bundle::read(files, MEMORY_BYTES_MAX)?;
            let several = render_for(bundle.clone(), &options, &["a".to_owned(), String::new()]);
            render(bundle, &options).or(several)
        };
        let (once, again) = (rendered(), rendered());
        assert_eq!(format!("{once:?}"), format!("{again:?}"));
        if let Ok(rendered) = once {
            let _ = olm_render::webhook_certificates(&rendered.objects);
        }
    }
}

proptest! {
    #[test]
    fn no_tree_makes_rendering_panic(
        manifests in prop::collection::vec(("[a-z/]{1,6}", value()), 0..4),
        annotations in value(),
        properties in value(),
        raw in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut files = BundleFiles::new();
        for (name, content) in manifests {
            files.insert(&format!("manifests/{name}"), content.to_string());
        }
        files.insert("manifests/raw", raw);
        files.insert("metadata/annotations.yaml", annotations.to_string());
        files.insert("metadata/properties.yaml", properties.to_string());
        renders(&files);
        files.insert("metadata/annotations.yaml", ANNOTATIONS);
        renders(&files);
    }

    #[test]
    fn no_change_of_a_csv_makes_rendering_panic(pointer in place(), new in value(), file in value()) {
        let mut sample = bundle().webhooks(json!([webhook("ValidatingAdmissionWebhook", "v")]));
        if let Some(place) = sample.csv.pointer_mut(&pointer) {
            *place = new;
        }
        let sample = sample.file("metadata/properties.yaml", json!({"properties": [file]}));
        renders(&sample.files());
    }

    #[test]
    fn no_change_of_a_crd_makes_rendering_panic(new in value(), pointer in prop::sample::select(&[
        "/metadata", "/spec", "/spec/names", "/spec/versions", "/spec/versions/0",
        "/spec/versions/0/schema/openAPIV3Schema",
    ][..])) {
        let mut conversion = webhook("ConversionWebhook", "c");
        conversion["conversionCRDs"] = json!(["samples.x.io"]);
        let mut changed = crd("samples.x.io");
        *changed.pointer_mut(pointer).unwrap() = new;
        renders(&bundle().webhooks(json!([conversion])).file("manifests/crd.yaml", changed).files());
    }
}
