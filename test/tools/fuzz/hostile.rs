//! Small inputs that once took gigabytes or minutes, and others of their kind.

use std::fmt;

use anyhow::{Context as _, Result, bail};

use super::{Cost, target_named};

/// A hostile input.
#[derive(Debug)]
pub struct Hostile {
    /// Name of the reader.
    pub target: &'static str,
    /// What is hostile about it.
    pub name: &'static str,
    /// The input.
    pub input: Vec<u8>,
}

impl fmt::Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.target, self.name)
    }
}

impl Hostile {
    /// Feeds it.
    ///
    /// # Errors
    /// The reader panics, or takes more memory than it may.
    pub fn feed(&self) -> Result<Cost> {
        let target = target_named(self.target).with_context(|| format!("no target {:?}", self.target))?;
        let (_, cost) = target.feed(&self.input)?;
        if cost.peak > cost.peak_allowed() {
            bail!("{self}: {cost:?}, more than {} bytes of memory", cost.peak_allowed());
        }
        Ok(cost)
    }
}

/// Makes an input.
type Maker = fn() -> String;

/// All of them, each made anew.
pub fn hostile() -> impl Iterator<Item = Hostile> {
    let all: [(&'static str, &'static str, Maker); 37] = [
        ("yaml", "quoted lines below a deep one", quoted_below_deep),
        ("yaml", "nested anchors", nested_anchors),
        ("yaml", "small mappings", || format!("[{}]", "{a: 1},".repeat(100_000))),
        ("yaml", "small lists", || format!("[{}]", "[],".repeat(300_000))),
        ("yaml", "aliases of aliases", aliases),
        ("yaml", "millions of digits", || {
            format!("a: {}\nb: '{}'", "1".repeat(5_000_000), "2".repeat(5_000_000))
        }),
        ("yaml", "millions of documents", || "---\n1\n".repeat(1_100_000)),
        ("bundle", "quoted lines below a deep one", || bundle_of(&quoted_below_deep())),
        ("bundle", "nested anchors", || bundle_of(&nested_anchors())),
        ("bundle", "a role of long lists", || bundle_of(&format!("kind: ClusterRole\n{}", long_role(3_000)))),
        ("bundle", "webhooks and deployments", webhooks),
        ("bundle", "annotations for many Deployments", annotated_deployments),
        ("bundle", "forbidden rules of webhooks", forbidden_rules),
        ("rules", "four long lists", || format!("{}\n{}", long_rules(3_000), long_rules(2_000))),
        ("rules", "many held rules", many_rules),
        ("rules", "long texts in a product", long_texts),
        ("catalog", "a schema for each document", schemas),
        ("graphql", "numbers", || {
            format!("{}\n---\n{{\"schema\":\"x\",\"a\":[1{}]}}", asked("{xs{a}}"), ",1".repeat(3_000_000))
        }),
        ("graphql", "different fields", different_fields),
        ("graphql", "fragments of fragments", fragments_of_fragments),
        ("graphql", "operations of fragments", operations_of_fragments),
        ("catalog", "very deep", || {
            format!("{{\"schema\":\"x\",\"a\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000))
        }),
        ("catalog", "aliases of aliases", || format!("schema: x\n{}", aliases())),
        ("catalog", "many documents", || "{\"schema\":\"x\"}\n".repeat(499_000)),
        ("catalog", "a million nodes", || {
            format!("{{\"schema\":\"x\",\"a\":[{}0]}}", "0,".repeat(1_000_000))
        }),
        ("catalog", "millions of numbers", || {
            format!("{{\"schema\":\"x\",\"a\":[{}0]}}", "0,".repeat(7_000_000))
        }),
        ("catalog", "one long line", || format!("{{\"schema\":\"x\",\"a\":\"{}\"}}", "x".repeat(31 << 20))),
        ("catalog", "a cycle that skips everything", skips),
        ("rule", "computed regular expressions", || {
            let texts: Vec<String> = (0..1_300).map(|i| format!("'\\\\pL{{100}}{i}'")).collect();
            format!("[{}].all(x, !''.matches(x))\nnull", texts.join(","))
        }),
        ("rule", "deep comparisons", || {
            let numbers: Vec<String> = (0..30_000).map(|i| i.to_string()).collect();
            format!("self.all(i, self == self)\n[{}]", numbers.join(","))
        }),
        ("rule", "doubled texts", || format!("['aaaaaaaa']{}.size() > 0\nnull", ".map(x, x + x)".repeat(60))),
        ("rule", "split texts", || {
            format!("self.split('a').map(x, self.split('a')).size() > 0\n\"{}\"", "a".repeat(500_000))
        }),
        ("constraint", "regular expressions of large classes", || {
            let texts: Vec<String> = (0..120).map(|i| format!("'\\\\\\\\pL{{100}}{i}'")).collect();
            let rule = format!("[{}].all(x, !''.matches(x))", texts.join(","));
            let one =
                format!("{{\"type\":\"olm.constraint\",\"value\":{{\"cel\":{{\"rule\":\"{rule}\"}}}}}}");
            format!("[{}]", vec![one; 100].join(","))
        }),
        ("crd", "defaults in each element", defaults),
        ("crd", "long unknown fields", unknown_fields),
        ("crd", "patterns of large classes", patterns),
        ("managed-fields", "keys of a long list", list_keys),
    ];
    all.into_iter().map(|(target, name, make)| Hostile { target, name, input: make().into_bytes() })
}

fn quoted_below_deep() -> String {
    format!("&x a:\n{}b: c\nd: 'e\n{}'\n", " ".repeat(200_000), "f\n".repeat(100_000))
}

fn nested_anchors() -> String {
    let anchors = (0..50).map(|n| format!("&a{n} [")).collect::<Vec<_>>().concat();
    format!("{anchors}{}1{}", "1,".repeat(18_000), "]".repeat(50))
}

const CSV: &str = "=== metadata/annotations.yaml\nannotations: {operators.operatorframework.io.bundle.package.v1: a}\n\
    === manifests/csv.yaml\napiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n\
    spec:\n  version: 1.0.0\n  installModes: [{type: AllNamespaces, supported: true}]\n";

fn bundle_of(manifest: &str) -> String {
    format!("{CSV}=== manifests/other.yaml\n{manifest}")
}

fn aliases() -> String {
    let levels = (1..12).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(",")));
    format!("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{}", levels.collect::<String>())
}

/// Each version replaces the next one and skips all others.
fn skips() -> String {
    const VERSIONS: usize = 800;
    let skips: Vec<String> = (0..VERSIONS).map(|i| format!("\"p.v{i}\"")).collect();
    let skips = skips.join(",");
    let entries: Vec<String> = (0..VERSIONS)
        .map(|i| {
            format!("{{\"name\":\"p.v{i}\",\"replaces\":\"p.v{}\",\"skips\":[{skips}]}}", (i + 1) % VERSIONS)
        })
        .collect();
    let bundle = |i: usize| {
        format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v{i}\",\"image\":\"i\",\"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"1.0.{i}\"}}}}]}}\n"
        )
    };
    format!(
        "{{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}}\n{}{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{}]}}\n",
        (0..VERSIONS).map(bundle).collect::<String>(),
        entries.join(",")
    )
}

fn list(kind: &str, count: usize) -> String {
    let items: Vec<String> = (0..count).map(|i| format!("\"{kind}{i}\"")).collect();
    format!("[{}]", items.join(","))
}

fn long_rules(count: usize) -> String {
    let [groups, resources, names, verbs] = ["g", "r", "n", "v"].map(|kind| list(kind, count));
    format!(
        "[{{\"apiGroups\":{groups},\"resources\":{resources},\"resourceNames\":{names},\"verbs\":{verbs}}}]"
    )
}

fn long_role(count: usize) -> String {
    format!("apiVersion: rbac.authorization.k8s.io/v1\nmetadata: {{name: r}}\nrules: {}\n", long_rules(count))
}

fn many_rules() -> String {
    let rule =
        |i: usize| format!("{{\"apiGroups\":[\"g{i}\"],\"resources\":[\"r\"],\"verbs\":[\"get\",\"list\"]}}");
    let rules: Vec<String> = (0..5_000).map(rule).collect();
    let held: Vec<String> = (2_500..7_500).map(rule).collect();
    format!("[{}]\n{}", rules.join(","), held.join("\n"))
}

fn long_texts() -> String {
    let long = "g".repeat(100_000);
    let resources = list("r", 5_000);
    format!("[{{\"apiGroups\":[\"{long}\"],\"resources\":{resources},\"verbs\":[\"get\"]}}]")
}

fn webhooks() -> String {
    let mut csv = CSV.to_owned();
    csv.push_str("  webhookdefinitions:\n");
    csv.extend((0..6_000).map(|i| format!(
            "  - {{type: ValidatingAdmissionWebhook, generateName: w{i}.x, deploymentName: d, containerPort: {}, targetPort: {i}, sideEffects: None, admissionReviewVersions: [v1]}}\n",
            1 + i % 60_000
        )));
    csv.push_str(
        "  install:\n    strategy: deployment\n    spec:\n      deployments:\n      - {name: d, spec: {}}\n",
    );
    csv
}

fn annotated_deployments() -> String {
    let long = "x".repeat(200_000);
    let mut csv = CSV
        .replace("metadata: {name: a.v1}", &format!("metadata: {{name: a.v1, annotations: {{a: {long}}}}}"));
    csv.push_str("  install:\n    strategy: deployment\n    spec:\n      deployments:\n");
    csv.extend(
        (0..5_000).map(|i| format!("      - {{name: d{i}, spec: {{template: {{metadata: {{}}}}}}}}\n")),
    );
    csv
}

fn forbidden_rules() -> String {
    let groups = vec!["admissionregistration.k8s.io"; 5_000].join(",");
    let resources = vec!["'*'"; 5_000].join(",");
    format!(
        "{CSV}  webhookdefinitions:\n  - {{type: ValidatingAdmissionWebhook, generateName: {}, deploymentName: d, sideEffects: None, admissionReviewVersions: [v1], rules: [{{apiGroups: [{groups}], resources: [{resources}]}}]}}\n",
        "w".repeat(100_000)
    )
}

/// The body of a request with a query.
fn asked(query: &str) -> String {
    format!("{{\"query\":\"{query}\"}}")
}

fn different_fields() -> String {
    let fields: Vec<String> = (0..50_000).map(|i| format!(",\"f{i}\":[{{\"g\":1}}]")).collect();
    format!("{}\n---\n{{\"schema\":\"x\"{}}}", asked("{xs{f1{g}}}"), fields.concat())
}

fn fragments_of_fragments() -> String {
    let fragments: Vec<String> =
        (0..900).map(|i| format!("fragment f{i} on Query{{...f{} ...f{}}}", i + 1, i + 2)).collect();
    asked(&format!("{{...f0}} {}", fragments.join(" ")))
}

fn operations_of_fragments() -> String {
    let fragments: Vec<String> = (0..1_000).map(|i| format!("fragment f{i} on Query{{...z}}")).collect();
    let spreads: Vec<String> = (0..1_000).map(|i| format!("...f{i}")).collect();
    let (operations, spreads) = ("{...a}".repeat(8_000), spreads.concat());
    asked(&format!("{operations} fragment a on Query{{{spreads}}} {}", fragments.concat()))
}

fn schemas() -> String {
    let lines: Vec<String> =
        (0..60_000).map(|i| format!("{{\"schema\":\"s{i}\",\"package\":\"p\"}}\n")).collect();
    lines.concat()
}

fn definition(schema: &str) -> String {
    format!(
        "{{\"metadata\":{{\"name\":\"a.b\"}},\"spec\":{{\"versions\":[{{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{{\"openAPIV3Schema\":{{\"type\":\"object\",\"properties\":{{\"a\":{schema}}}}}}}}}]}}}}"
    )
}

fn crd(schema: &str, object: &str) -> String {
    let definition = definition(schema);
    format!("{definition}\n{definition}\n{{\"a\":{object}}}")
}

fn defaults() -> String {
    let long = list("v", 5_000);
    let schema = format!(
        "{{\"type\":\"array\",\"items\":{{\"type\":\"object\",\"properties\":{{\"b\":{{\"type\":\"array\",\"items\":{{\"type\":\"string\"}},\"default\":{long}}}}}}}}}"
    );
    crd(&schema, &format!("[{}{{}}]", "{},".repeat(20_000)))
}

fn unknown_fields() -> String {
    let fields: Vec<String> = (0..50_000).map(|i| format!("\"f{i}\":1")).collect();
    let schema = "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\"}}";
    crd(schema, &format!("{{\"{}\":{{{}}}}}", "n".repeat(100_000), fields.join(",")))
}

fn patterns() -> String {
    let fields: Vec<String> = (0..2_000)
        .map(|i| format!("\"p{i}\":{{\"type\":\"string\",\"pattern\":\"^\\\\pL{{{}}}$\"}}", i + 1))
        .collect();
    crd(&format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", fields.join(",")), "{\"p7\":\"aaaa\"}")
}

fn list_keys() -> String {
    let items: Vec<String> = (0..6_000).map(|i| format!("{{\"name\":\"n{i}\",\"v\":1}}")).collect();
    let keys: Vec<String> = (0..6_000)
        .map(|i| format!("\"k:{{\\\"name\\\":\\\"n{i}\\\"}}\":{{\".\":{{}},\"f:v\":{{}}}}"))
        .collect();
    let items = items.join(",");
    let entry = format!(
        "{{\"manager\":\"olm.operatorframework.io\",\"operation\":\"Apply\",\"fieldsV1\":{{\"f:spec\":{{{}}}}}}}",
        keys.join(",")
    );
    format!(
        "{{\"metadata\":{{\"managedFields\":[{entry}]}},\"spec\":[{items}]}}\n{{\"spec\":[{items}]}}\n{{\"spec\":[{items}]}}"
    )
}
