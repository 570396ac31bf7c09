//! The ClusterServiceVersion that a bundle is answered with when the catalog has only the metadata of it: consoles and the
//! package server read it.

use olm_bundle::typed::{
    API_SERVICE_DEFINITIONS, CRD_DEFINITIONS, Fields, GROUP_VERSION_KIND, INSTALL_MODE,
    Kind::{self, List, Map, Object, Text},
    LINK, MAINTAINER,
    Presence::{Always, Optional},
};
use olm_go::{
    base64,
    json::{self, Html},
};
use olm_opm::encode;
use olm_semver::Version;

use super::{
    Bundle,
    bundle::{Members, find, members, members_of},
};
use crate::limits::ICON_BYTES_MAX;

/// The fixed parts before and after the fields that come from the catalog.
const KIND: &str = r#""kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1""#;
const INSTALL: &str = r#""install":{"strategy":"deployment","spec":{"deployments":null}}"#;
const CLEANUP: &str = r#""cleanup":{"enabled":false}"#;
const STATUS: &str = r#""status":{"cleanup":{}}"#;

// The fields of the structures in the order in which upstream writes them. A structure a paragraph.
#[rustfmt::skip]
static METADATA: Fields = Fields::named("", &[
    ("name", Optional, Text), ("labels", Optional, Map(&Text)), ("annotations", Optional, Map(&Text)),
]);
#[rustfmt::skip]
static SPEC: Fields = Fields::named("", &[
    ("version", Always, Text), ("maturity", Optional, Text),
    ("customresourcedefinitions", Always, Object(&CRD_DEFINITIONS)),
    ("apiservicedefinitions", Always, Object(&API_SERVICE_DEFINITIONS)),
    ("nativeAPIs", Optional, List(&Object(&GROUP_VERSION_KIND))), ("minKubeVersion", Optional, Text),
    ("displayName", Always, Text), ("description", Optional, Text), ("keywords", Optional, List(&Text)),
    ("maintainers", Optional, List(&Object(&MAINTAINER))), ("provider", Always, Object(&LINK)),
    ("links", Optional, List(&Object(&LINK))), ("icon", Optional, List(&Object(&ICON))),
    ("installModes", Optional, List(&Object(&INSTALL_MODE))),
]);
#[rustfmt::skip]
static ICON: Fields = Fields::named("", &[("base64data", Always, Text), ("mediatype", Always, Text)]);
#[rustfmt::skip]
static IMAGES: Fields = Fields::named("", &[("relatedImages", Optional, List(&Object(&RELATED_IMAGE)))]);
#[rustfmt::skip]
static RELATED_IMAGE: Fields = Fields::named("", &[("name", Always, Text), ("image", Always, Text)]);

/// Fields of the metadata property that have other names in a ClusterServiceVersion.
const RENAMED: [(&str, &str); 2] =
    [("crdDescriptions", "customresourcedefinitions"), ("apiServiceDefinitions", "apiservicedefinitions")];

/// The ClusterServiceVersion of `bundle`, made of its metadata and of the document of its package.
pub(super) fn stub(
    bundle: &Bundle,
    metadata: &str,
    related_images: Option<&str>,
    package: &[u8],
) -> Result<String, String> {
    let package = if package.is_empty() { Members::new() } else { members(package)? };
    let metadata = members_of(metadata)?;
    // A bundle whose version is none is in no package that is served.
    let version: Version = bundle.version.parse().map_err(|error| format!("{error}"))?;
    let mut description = find(&metadata, "description").filter(|text| *text != "\"\"");
    if description.is_none() {
        description = find(&package, "description");
    }
    let (version, icon, name) = (text(&version.to_string()), icon(&package)?, text(&bundle.csv_name));
    let mut spec = vec![("version", version.as_str())];
    spec.extend(description.map(|description| ("description", description)));
    spec.extend(icon.as_ref().map(|icon| ("icon", icon.as_str())));
    let fixed = ["version", "description", "icon"];
    for (field, ..) in SPEC.rows.iter().filter(|(field, ..)| !fixed.contains(field)) {
        let named = RENAMED.iter().find(|(_, name)| name == field).map_or(*field, |(name, _)| name);
        spec.extend(find(&metadata, named).map(|value| (*field, value)));
    }
    let mut meta = vec![("name", name.as_str())];
    meta.extend(
        ["labels", "annotations"].into_iter().filter_map(|name| Some((name, find(&metadata, name)?))),
    );
    let images: Vec<_> = related_images.map(|images| ("relatedImages", images)).into_iter().collect();
    let (meta, spec) = (written(&METADATA, &meta)?, written(&SPEC, &spec)?);
    let images = match written(&IMAGES, &images)?.as_str() {
        "" => String::new(),
        images => format!(",{images}"),
    };
    let csv = format!(
        "{{{KIND},\"metadata\":{{{meta}}},\"spec\":{{{INSTALL},{spec},{CLEANUP}{images}}},{STATUS}}}"
    );
    Ok(json::escape_html(&csv))
}

/// The fields of a structure as upstream writes them, without the braces.
fn written(fields: &'static Fields, members: &[(&str, &str)]) -> Result<String, String> {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let mut out = Vec::new();
    encode::write(&mut out, &format!("{{{}}}", members.join(",")), &Kind::Object(fields), Html::Kept)
        .map_err(|error| error.to_string())?;
    let json = String::from_utf8(out).map_err(|error| error.to_string())?;
    Ok(json.strip_prefix('{').and_then(|json| json.strip_suffix('}')).unwrap_or_default().to_owned())
}

fn text(text: &str) -> String {
    let mut out = Vec::new();
    json::write_text(&mut out, text, Html::Kept);
    json::into_raw(out).get().to_owned()
}

/// The icon of a package as a list of one, as ClusterServiceVersions have it.
fn icon(package: &Members<'_>) -> Result<Option<String>, String> {
    let Some(icon) = find(package, "icon") else { return Ok(None) };
    let icon = members_of(icon)?;
    let read = |name| match find(&icon, name) {
        Some(value) if value.len() <= ICON_BYTES_MAX => {
            serde_json::from_str::<String>(value).map_err(|error| error.to_string())
        }
        _ => Ok(String::new()),
    };
    let (data, media_type) = (read("base64data")?, read("mediatype")?);
    let data =
        base64::decode(data.as_bytes()).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    let (data, media_type) = (text(&base64::encode(&data)), text(&media_type));
    Ok(Some(format!("[{{\"base64data\":{data},\"mediatype\":{media_type}}}]")))
}
