//! The structures of the original, as far as types are checked: the four known schemas and known properties.

use super::Shape::{self, Bytes, Flag, List, Map, Number, Raw, Structure, Text};

const PROPERTY: Shape = Structure("property.Property", &[("type", Text), ("value", Raw)]);
const ICON: Shape = Structure("declcfg.Icon", &[("base64data", Bytes), ("mediatype", Text)]);

pub(crate) const PACKAGE: Shape = Structure(
    "declcfg.Package",
    &[
        ("schema", Text),
        ("name", Text),
        ("defaultChannel", Text),
        ("icon", ICON),
        ("description", Text),
        ("properties", List(&PROPERTY)),
    ],
);

const ENTRY: Shape = Structure(
    "declcfg.ChannelEntry",
    &[("name", Text), ("replaces", Text), ("skips", List(&Text)), ("skipRange", Text)],
);

pub(crate) const CHANNEL: Shape = Structure(
    "declcfg.Channel",
    &[
        ("schema", Text),
        ("name", Text),
        ("package", Text),
        ("entries", List(&ENTRY)),
        ("properties", List(&PROPERTY)),
    ],
);

const RELATED_IMAGE: Shape = Structure("declcfg.RelatedImage", &[("name", Text), ("image", Text)]);

pub(crate) const BUNDLE: Shape = Structure(
    "declcfg.Bundle",
    &[
        ("schema", Text),
        ("name", Text),
        ("package", Text),
        ("image", Text),
        ("properties", List(&PROPERTY)),
        ("relatedImages", List(&RELATED_IMAGE)),
    ],
);

const REFERENCE: Shape = Structure("declcfg.PackageScopedReference", &[("schema", Text), ("name", Text)]);
const DEPRECATION_ENTRY: Shape =
    Structure("declcfg.DeprecationEntry", &[("reference", REFERENCE), ("message", Text)]);

pub(crate) const DEPRECATION: Shape = Structure(
    "declcfg.Deprecation",
    &[("schema", Text), ("package", Text), ("entries", List(&DEPRECATION_ENTRY))],
);

pub(crate) const BUNDLE_OBJECT: Shape = Structure("property.BundleObject", &[("data", Bytes)]);

const PACKAGE_PROPERTY: Shape =
    Structure("property.Package", &[("packageName", Text), ("version", Text), ("release", Text)]);
const PACKAGE_REQUIRED: Shape =
    Structure("property.PackageRequired", &[("packageName", Text), ("versionRange", Text)]);
const GVK: Shape = Structure("property.GVK", &[("group", Text), ("kind", Text), ("version", Text)]);
const GVK_REQUIRED: Shape =
    Structure("property.GVKRequired", &[("group", Text), ("kind", Text), ("version", Text)]);
const CHANNEL_PROPERTY: Shape = Structure("property.Channel", &[("channelName", Text)]);

const LINK: Shape = Structure("v1alpha1.AppLink", &[("name", Text), ("url", Text)]);
const MAINTAINER: Shape = Structure("v1alpha1.Maintainer", &[("name", Text), ("email", Text)]);
const INSTALL_MODE: Shape = Structure("v1alpha1.InstallMode", &[("type", Text), ("supported", Flag)]);
const NATIVE_API: Shape =
    Structure("v1.GroupVersionKind", &[("group", Text), ("version", Text), ("kind", Text)]);
const RESOURCE: Shape =
    Structure("v1alpha1.APIResourceReference", &[("name", Text), ("kind", Text), ("version", Text)]);
const STATUS_DESCRIPTOR: Shape = Structure("v1alpha1.StatusDescriptor", DESCRIPTOR_FIELDS);
const SPEC_DESCRIPTOR: Shape = Structure("v1alpha1.SpecDescriptor", DESCRIPTOR_FIELDS);
const ACTION_DESCRIPTOR: Shape = Structure("v1alpha1.ActionDescriptor", DESCRIPTOR_FIELDS);
const DESCRIPTOR_FIELDS: &[(&str, Shape)] = &[
    ("path", Text),
    ("displayName", Text),
    ("description", Text),
    ("x-descriptors", List(&Text)),
    ("value", Raw),
];
const CRD: Shape = Structure(
    "v1alpha1.CRDDescription",
    &[
        ("name", Text),
        ("version", Text),
        ("kind", Text),
        ("displayName", Text),
        ("description", Text),
        ("resources", List(&RESOURCE)),
        ("statusDescriptors", List(&STATUS_DESCRIPTOR)),
        ("specDescriptors", List(&SPEC_DESCRIPTOR)),
        ("actionDescriptors", List(&ACTION_DESCRIPTOR)),
    ],
);
const API_SERVICE: Shape = Structure(
    "v1alpha1.APIServiceDescription",
    &[
        ("name", Text),
        ("group", Text),
        ("version", Text),
        ("kind", Text),
        ("deploymentName", Text),
        ("containerPort", Number),
        ("displayName", Text),
        ("description", Text),
        ("resources", List(&RESOURCE)),
        ("statusDescriptors", List(&STATUS_DESCRIPTOR)),
        ("specDescriptors", List(&SPEC_DESCRIPTOR)),
        ("actionDescriptors", List(&ACTION_DESCRIPTOR)),
    ],
);
const CRDS: Shape =
    Structure("v1alpha1.CustomResourceDefinitions", &[("owned", List(&CRD)), ("required", List(&CRD))]);
const API_SERVICES: Shape = Structure(
    "v1alpha1.APIServiceDefinitions",
    &[("owned", List(&API_SERVICE)), ("required", List(&API_SERVICE))],
);

const CSV_METADATA: Shape = Structure(
    "property.CSVMetadata",
    &[
        ("annotations", Map(&Text)),
        ("apiServiceDefinitions", API_SERVICES),
        ("crdDescriptions", CRDS),
        ("description", Text),
        ("displayName", Text),
        ("installModes", List(&INSTALL_MODE)),
        ("keywords", List(&Text)),
        ("labels", Map(&Text)),
        ("links", List(&LINK)),
        ("maintainers", List(&MAINTAINER)),
        ("maturity", Text),
        ("minKubeVersion", Text),
        ("nativeAPIs", List(&NATIVE_API)),
        ("provider", LINK),
    ],
);

/// The type of a property's value; any for types that are not known.
pub(crate) fn property(kind: &str) -> &'static Shape {
    match kind {
        "olm.package" => &PACKAGE_PROPERTY,
        "olm.package.required" => &PACKAGE_REQUIRED,
        "olm.gvk" => &GVK,
        "olm.gvk.required" => &GVK_REQUIRED,
        "olm.bundle.object" => &BUNDLE_OBJECT,
        "olm.csv.metadata" => &CSV_METADATA,
        "olm.channel" => &CHANNEL_PROPERTY,
        _ => &Raw,
    }
}
