//! opm's structures as tables: documents of catalogs, values of properties, and what opm reads of other files.
//!
//! Source: operator-registry `alpha/declcfg/declcfg.go`, `alpha/property/property.go`, `alpha/template`.

use olm_bundle::{
    OLM_PROPERTIES,
    typed::{
        API_SERVICE_DEFINITIONS, CRD_DEFINITIONS, Fields, GROUP_VERSION_KIND, INSTALL_MODE,
        Kind::{self, Bool, Bytes, List, Map, Object, Raw, Text},
        LINK, MAINTAINER,
        Presence::{Always, Optional, Pointer},
    },
};
use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_CHANNEL, PROPERTY_CSV_METADATA, PROPERTY_GVK, PROPERTY_GVK_REQUIRED,
    PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS,
    SCHEMA_PACKAGE,
};

/// The structure of a document of a known schema, and opm's word for it.
pub(crate) fn document(schema: &str) -> Option<(&'static str, Kind)> {
    Some(match schema {
        SCHEMA_PACKAGE => ("package", Object(&PACKAGE)),
        SCHEMA_CHANNEL => ("channel", Object(&CHANNEL)),
        SCHEMA_BUNDLE => ("bundle", Object(&BUNDLE)),
        SCHEMA_DEPRECATIONS => ("deprecation", Object(&DEPRECATION)),
        _ => return None,
    })
}

/// The type of a property's value; any for types that are not known.
pub(crate) fn property(kind: &str) -> Kind {
    match kind {
        PROPERTY_PACKAGE => Object(&PACKAGE_PROPERTY),
        PROPERTY_PACKAGE_REQUIRED => Object(&PACKAGE_REQUIRED),
        PROPERTY_GVK => Object(&GVK),
        PROPERTY_GVK_REQUIRED => Object(&GVK_REQUIRED),
        PROPERTY_BUNDLE_OBJECT => Object(&BUNDLE_OBJECT),
        PROPERTY_CSV_METADATA => Object(&CSV_METADATA),
        PROPERTY_CHANNEL => Object(&CHANNEL_PROPERTY),
        _ => Raw,
    }
}

static PROPERTY: Fields = Fields::named("property.Property", &[("type", Always, Text), ("value", Always, Raw)]);
static PACKAGE: Fields = Fields::named("declcfg.Package", &[
    ("schema", Always, Text), ("name", Always, Text), ("defaultChannel", Always, Text),
    ("icon", Pointer, Object(&Fields::named("declcfg.Icon", &[
        ("base64data", Always, Bytes), ("mediatype", Always, Text),
    ]))),
    ("description", Optional, Text), ("properties", Optional, List(&Object(&PROPERTY))),
]);
static CHANNEL: Fields = Fields::named("declcfg.Channel", &[
    ("schema", Always, Text), ("name", Always, Text), ("package", Always, Text),
    ("entries", Always, List(&Object(&Fields::named("declcfg.ChannelEntry", &[
        ("name", Always, Text), ("replaces", Optional, Text), ("skips", Optional, List(&Text)),
        ("skipRange", Optional, Text),
    ])))),
    ("properties", Optional, List(&Object(&PROPERTY))),
]);
static RELATED_IMAGE: Fields = Fields::named("declcfg.RelatedImage", &[("name", Always, Text), ("image", Always, Text)]);
pub(crate) static BUNDLE: Fields = Fields::named("declcfg.Bundle", &[
    ("schema", Always, Text), ("name", Optional, Text), ("package", Optional, Text), ("image", Always, Text),
    ("properties", Optional, List(&Object(&PROPERTY))), ("relatedImages", Optional, List(&Object(&RELATED_IMAGE))),
]);
static DEPRECATION: Fields = Fields::named("declcfg.Deprecation", &[
    ("schema", Always, Text), ("package", Always, Text),
    ("entries", Always, List(&Object(&Fields::named("declcfg.DeprecationEntry", &[
        ("reference", Always, Object(&Fields::named("declcfg.PackageScopedReference", &[
            ("schema", Always, Text), ("name", Optional, Text),
        ]))),
        ("message", Always, Text),
    ])))),
]);

static PACKAGE_PROPERTY: Fields = Fields::named("property.Package", &[
    ("packageName", Always, Text), ("version", Always, Text), ("release", Optional, Text),
]);
static PACKAGE_REQUIRED: Fields = Fields::named("property.PackageRequired", &[
    ("packageName", Always, Text), ("versionRange", Always, Text),
]);
static GVK: Fields = Fields::named("property.GVK", &[
    ("group", Always, Text), ("kind", Always, Text), ("version", Always, Text),
]);
static GVK_REQUIRED: Fields = Fields::named("property.GVKRequired", GVK.rows);
static BUNDLE_OBJECT: Fields = Fields::named("property.BundleObject", &[("data", Always, Bytes)]);
static CHANNEL_PROPERTY: Fields = Fields::named("property.Channel", &[("channelName", Always, Text)]);

/// An icon in a ClusterServiceVersion.
pub(crate) const CSV_ICON: Kind =
    Object(&Fields::named("v1alpha1.Icon", &[("base64data", Always, Text), ("mediatype", Always, Text)]));

/// The fields of a ClusterServiceVersion that user interfaces show.
pub(crate) static CSV_METADATA: Fields = Fields::named("property.CSVMetadata", &[
    ("annotations", Optional, Map(&Text)), ("apiServiceDefinitions", Always, Object(&API_SERVICE_DEFINITIONS)),
    ("crdDescriptions", Always, Object(&CRD_DEFINITIONS)), ("description", Optional, Text),
    ("displayName", Optional, Text), ("installModes", Optional, List(&Object(&INSTALL_MODE))),
    ("keywords", Optional, List(&Text)), ("labels", Optional, Map(&Text)), ("links", Optional, List(&Object(&LINK))),
    ("maintainers", Optional, List(&Object(&MAINTAINER))), ("maturity", Optional, Text),
    ("minKubeVersion", Optional, Text), ("nativeAPIs", Optional, List(&Object(&GROUP_VERSION_KIND))),
    ("provider", Always, Object(&LINK)),
]);

/// A structure with one field that is read.
macro_rules! with {
    ($name:expr, $kind:expr) => { Object(&Fields::named("", &[($name, Always, $kind)])) };
}

/// A ClusterServiceVersion as far as every bundle's is read: opm leaves the rest as it is.
pub(crate) static CSV: Kind = Object(&Fields::named("", &[
    ("metadata", Always, Object(&Fields::named("", &[
        ("name", Always, Text), ("annotations", Always, with!(OLM_PROPERTIES, Text)),
    ]))),
    ("spec", Always, Object(&Fields::named("", &[
        ("version", Always, Text), ("release", Always, Text),
        ("customresourcedefinitions", Always, DEFINITIONS), ("apiservicedefinitions", Always, DEFINITIONS),
    ]))),
]));
const DEFINITIONS: Kind = Object(&Fields::named("", &[
    ("owned", Always, DEFINITION_KEYS), ("required", Always, DEFINITION_KEYS),
]));
const DEFINITION_KEYS: Kind = List(&Object(&Fields::named("", &[
    ("group", Always, Text), ("version", Always, Text), ("kind", Always, Text), ("name", Always, Text),
])));

/// The images in a ClusterServiceVersion.
pub(crate) static CSV_IMAGES: Kind = with!("spec", Object(&Fields::named("", &[
    ("relatedImages", Always, List(&Object(&RELATED_IMAGE))),
    ("install", Always, Object(&Fields::named("", &[
        ("strategy", Always, Text), ("spec", Always, with!("deployments", List(&DEPLOYMENT))),
    ]))),
])));
const DEPLOYMENT: Kind = with!("spec", with!("template", with!("spec", Object(&Fields::named("", &[
    ("containers", Always, List(&IMAGE)), ("initContainers", Always, List(&IMAGE)),
])))));
/// A container, or an entry of a semver template.
const IMAGE: Kind = with!("image", Text);

/// A CustomResourceDefinition, of v1 or v1beta1.
pub(crate) static CRD: Kind = Object(&Fields::named("", &[
    ("apiVersion", Always, Text),
    ("spec", Always, Object(&Fields::named("", &[
        ("group", Always, Text), ("version", Always, Text), ("versions", Always, List(&with!("name", Text))),
        ("names", Always, Object(&Fields::named("", &[("kind", Always, Text), ("plural", Always, Text)]))),
    ]))),
]));

/// Any template, as far as it says which one it is.
pub(crate) static TEMPLATE: Fields = Fields::named("template.Metadata", &[("schema", Always, Text)]);
/// A basic template.
pub(crate) static BASIC: Fields = Fields::named("basic.BasicTemplateData", &[
    ("schema", Always, Text), ("entries", Always, List(&Raw)),
]);
/// A semver template.
pub(crate) static SEMVER: Fields = Fields::named("semver.SemverTemplateData", &[
    ("schema", Always, Text), ("generateMajorChannels", Always, Bool), ("generateMinorChannels", Always, Bool),
    ("defaultChannelTypePreference", Always, Text), ("candidate", Always, BUNDLES), ("fast", Always, BUNDLES),
    ("stable", Always, BUNDLES),
]);
const BUNDLES: Kind = with!("bundles", List(&IMAGE));
/// A substitutes template.
pub(crate) static SUBSTITUTES: Fields = Fields::named("substitutes.SubstitutesTemplateData", &[
    ("schema", Always, Text), ("entries", Always, List(&Raw)),
    ("substitutions", Always, List(&Object(&Fields::named("substitutes.Substitute", &[
        ("name", Always, Text), ("base", Always, Text),
    ])))),
]);
