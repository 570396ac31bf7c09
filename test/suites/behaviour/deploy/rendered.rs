//! What is rendered, without a cluster: all ways lead to the same objects, and the programs know their flags.

use olm_test::prelude::*;

use crate::followed::{Step, steps};
use crate::rendering::{
    Objects, assert_same, file, kustomize, kustomized, kustomized_with, run, templated, templated_with,
};

const OPERATOR_CONTROLLER: &str = "operator-controller-controller-manager";
const CATALOGD: &str = "catalogd-controller-manager";
const CLASSIC: &str = "olm-operator";
const OVERLAYS: [&str; 7] = [
    "default",
    "overlays/split",
    "overlays/cert-manager",
    "overlays/openshift",
    "overlays/restricted-accounts",
    "overlays/classic",
    "overlays/classic-catalogs",
];
/// What can be added to the default and the split installation, and the chart's value for it.
const COMPONENTS: [(&str, &str); 2] =
    [("cert-manager", "options.certManager.enabled=true"), ("openshift", "options.openshift.enabled=true")];

fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> Result<&'a Value> {
    let found = objects.iter().find(|((k, _, n), _)| k == kind && n == name);
    Ok(found.with_context(|| format!("{kind} {name} was not rendered"))?.1)
}

fn container<'a>(objects: &'a Objects, deployment: &str) -> Result<&'a Value> {
    Ok(&find(objects, "Deployment", deployment)?["spec"]["template"]["spec"]["containers"][0])
}

fn args(objects: &Objects, deployment: &str) -> Result<Vec<String>> {
    Ok(serde_json::from_value(container(objects, deployment)?["args"].clone())?)
}

/// Every way to install by kustomize.
fn installations() -> Result<Vec<(&'static str, Objects)>> {
    let mut installations = Vec::new();
    for overlay in OVERLAYS {
        installations.push((overlay, kustomized(overlay)?));
    }
    for (component, _) in COMPONENTS {
        installations.push((component, kustomized_with("overlays/split", component)?));
    }
    Ok(installations)
}

#[test]
fn the_install_manifest_is_the_default_overlay() -> Result<()> {
    assert_same("install.yaml and kustomize", &file("install.yaml")?, &kustomized("default")?);
    Ok(())
}

#[test]
fn chart_and_kustomize_render_the_same() -> Result<()> {
    for (overlay, values) in [
        ("default", &[][..]),
        ("overlays/split", &["options.catalogd.separate=true"]),
        ("overlays/cert-manager", &["options.certManager.enabled=true"]),
        ("overlays/openshift", &["options.openshift.enabled=true"]),
        ("overlays/restricted-accounts", &["options.restrictedAccounts.enabled=true"]),
        ("overlays/classic", &["options.classic.enabled=true"]),
        (
            "overlays/classic-catalogs",
            &["options.classic.enabled=true", "options.classic.clusterCatalogs=true"],
        ),
    ] {
        assert_same(overlay, &kustomized(overlay)?, &templated(values)?);
    }
    for (component, value) in COMPONENTS {
        let values = [value, "options.catalogd.separate=true"];
        assert_same(component, &kustomized_with("overlays/split", component)?, &templated(&values)?);
    }
    Ok(())
}

/// OLM Classic is the same beside every variant of OLM v1, which does not change it.
#[test]
fn classic_stands_beside_every_variant() -> Result<()> {
    let alone = kustomized("classic")?;
    for (overlay, value) in [
        ("overlays/split", "options.catalogd.separate=true"),
        ("overlays/restricted-accounts", "options.restrictedAccounts.enabled=true"),
        ("overlays/cert-manager", "options.certManager.enabled=true"),
        ("overlays/openshift", "options.openshift.enabled=true"),
    ] {
        let mut both = kustomized(overlay)?;
        both.extend(alone.clone());
        assert_same(overlay, &both, &templated(&["options.classic.enabled=true", value])?);
    }
    for (component, _) in COMPONENTS {
        let objects = kustomized_with("overlays/classic", component)?;
        assert_eq!(
            find(&objects, "Deployment", CLASSIC)?,
            find(&alone, "Deployment", CLASSIC)?,
            "{component}"
        );
    }
    Ok(())
}

/// The Service and port that kube-apiserver forwards requests to exist, and the program keeps them so.
#[test]
fn the_api_service_of_classic_leads_to_its_pods() -> Result<()> {
    let objects = kustomized("classic")?;
    let api = &find(&objects, "APIService", "v1.packages.operators.coreos.com")?["spec"];
    let service = &find(&objects, "Service", api["service"]["name"].as_str().unwrap_or_default())?;
    assert_eq!(service["metadata"]["namespace"], api["service"]["namespace"]);
    let port = &service["spec"]["ports"][0];
    assert_eq!(port["port"], api["service"]["port"]);
    let ports = container(&objects, CLASSIC)?["ports"].as_array().context("ports")?;
    assert!(
        ports.iter().any(|one| one["containerPort"] == port["targetPort"] && one["name"] == port["name"])
    );
    assert_eq!((&api["caBundle"], &api["insecureSkipTLSVerify"]), (&Value::Null, &Value::Null));
    Ok(())
}

/// ClusterCatalogs that OLM Classic serves are found by operator-controller, which may read whom to trust there.
#[test]
fn catalogs_of_both_kinds_are_served_by_one_program() -> Result<()> {
    let objects = kustomized("overlays/classic-catalogs")?;
    assert!(args(&objects, CLASSIC)?.contains(&"--cluster-catalogs".to_owned()));
    let address = "catalogd-service.olm.svc";
    assert!(args(&objects, CLASSIC)?.contains(&format!("--external-address={address}")));
    assert!(args(&objects, OPERATOR_CONTROLLER)?.contains(&format!("--catalogd-address={address}")));
    let service = find(&objects, "Service", "catalogd-service")?;
    assert_eq!(service["metadata"]["namespace"], "olm");
    let pod = &find(&objects, "Deployment", CLASSIC)?["spec"]["template"];
    assert_eq!(service["spec"]["selector"]["control-plane"], pod["metadata"]["labels"]["control-plane"]);
    let ports = container(&objects, CLASSIC)?["ports"].as_array().context("ports")?;
    let port = ports.iter().find(|one| one["name"] == service["spec"]["ports"][0]["targetPort"]);
    let port = &port.context("no port of that name")?["containerPort"];
    let policy = find(&objects, "NetworkPolicy", CLASSIC)?;
    let open = policy["spec"]["ingress"][0]["ports"].as_array().context("ports")?;
    assert!(open.iter().any(|one| one["port"] == *port));
    let trust = find(&objects, "Role", "catalogd-authority")?;
    assert_eq!(trust["rules"][0]["resourceNames"], json!(["catalogd-serving-cert"]));
    assert_eq!(
        find(&objects, "RoleBinding", "catalogd-authority")?["subjects"][0]["name"],
        OPERATOR_CONTROLLER
    );
    Ok(())
}

#[test]
fn the_charts_values_go_where_upstreams_go() -> Result<()> {
    let objects = templated(&[
        "namespaces.olmv1.name=elsewhere",
        "options.featureSet=experimental",
        "options.operatorController.deployment.image=example.com/oc:1",
        "options.operatorController.deployment.replicas=3",
        "options.operatorController.deployment.extraArguments={--v=4}",
        "options.operatorController.deployment.podLabels.team=olm",
        "options.operatorController.features.enabled={BoxcutterRuntime,DeploymentConfig}",
        "options.operatorController.features.disabled={WebhookProviderOpenshiftServiceCA}",
        "options.operatorController.podDisruptionBudget.minAvailable=1",
        "deployments.templateSpec.priorityClassName=mine",
        "deployments.containerSpec.imagePullPolicy=Always",
    ])?;
    assert!(!serde_json::to_string(&objects.values().collect::<Vec<_>>())?.contains("olmv1-system"));
    let deployment = find(&objects, "Deployment", OPERATOR_CONTROLLER)?;
    assert_eq!(deployment["metadata"]["namespace"], "elsewhere");
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["team"], "olm");
    assert_eq!(deployment["spec"]["template"]["spec"]["priorityClassName"], "mine");
    let container = container(&objects, OPERATOR_CONTROLLER)?;
    assert_eq!(container["image"], "example.com/oc:1");
    assert_eq!(container["imagePullPolicy"], "Always");
    let args = args(&objects, OPERATOR_CONTROLLER)?;
    assert_eq!(
        args[args.len() - 4..],
        [
            "--feature-gates=BoxcutterRuntime=true",
            "--feature-gates=DeploymentConfig=true",
            "--feature-gates=WebhookProviderOpenshiftServiceCA=false",
            "--v=4",
        ]
    );
    let budget = &find(&objects, "PodDisruptionBudget", OPERATOR_CONTROLLER)?["spec"];
    assert_eq!((&budget["minAvailable"], &budget["maxUnavailable"]), (&json!(1), &Value::Null));
    let without = templated(&["options.operatorController.podDisruptionBudget.enabled=false"])?;
    assert!(find(&without, "PodDisruptionBudget", OPERATOR_CONTROLLER).is_err());
    Ok(())
}

/// A file that a page shows, in its code block.
fn shown(page: &str, heading: &str, name: &str) -> Result<String> {
    let found = steps(page, Some(heading))?.into_iter().find_map(|step| match step {
        Step::File(file, text) if file == name => Some(text),
        _ => None,
    });
    found.with_context(|| format!("{page} shows no {name}"))
}

#[test]
fn registries_are_mounted_as_the_page_on_installing_shows_it() -> Result<()> {
    let heading = "3. Your registries";
    let folder = tempfile::tempdir()?;
    // Kustomize takes neither absolute paths nor links out of its folder.
    let place = folder.path().canonicalize()?;
    let up = "../".repeat(place.components().count() - 1);
    let default = kubectl::config("default").canonicalize()?;
    let text = shown("install.md", heading, "kustomization.yaml")?;
    let text = text.replace("config/default", &format!("{up}{}", default.strip_prefix("/")?.display()));
    std::fs::write(place.join("kustomization.yaml"), text)?;
    let values = place.join("values.yaml");
    std::fs::write(&values, shown("install.md", heading, "values.yaml")?)?;
    let values = format!("--values={}", values.display());
    let (patched, charted) = (kustomize(&place)?, templated_with(std::slice::from_ref(&values))?);
    for objects in [&patched, &charted] {
        let pod = &find(objects, "Deployment", OPERATOR_CONTROLLER)?["spec"]["template"]["spec"];
        let names = |list: &Value, field: &str| -> Vec<String> {
            let items = list.as_array().into_iter().flatten();
            items.filter_map(|item| item[field].as_str().map(str::to_owned)).collect()
        };
        assert_eq!(names(&pod["volumes"], "name"), ["cache", "registries", "registry-certificates"]);
        let container = &pod["containers"][0];
        let folders = ["/var/cache", "/etc/containers", "/etc/olm/registry-certificates"];
        assert_eq!(names(&container["volumeMounts"], "mountPath"), folders);
        assert_eq!(names(&container["volumeMounts"], "name"), names(&pod["volumes"], "name"));
        let args = args(objects, OPERATOR_CONTROLLER)?;
        assert_eq!(args.last().map(String::as_str), Some("--pull-cas-dir=/etc/olm/registry-certificates"));
    }
    let deployment = |objects| find(objects, "Deployment", OPERATOR_CONTROLLER).cloned();
    assert_eq!(deployment(&patched)?, deployment(&charted)?);
    // Beside what variants bring, and for catalogd as well where it is a program of its own.
    let both = ["--set=options.openshift.enabled=true", "--set=options.catalogd.separate=true"];
    let objects = templated_with(&[&both.map(str::to_owned)[..], &[values]].concat())?;
    let without = templated(&both.map(|value| value.trim_start_matches("--set=")))?;
    for deployment in [OPERATOR_CONTROLLER, CATALOGD] {
        let count = |objects| -> Result<usize> {
            Ok(container(objects, deployment)?["volumeMounts"].as_array().map_or(0, Vec::len))
        };
        assert_eq!(count(&objects)?, count(&without)? + 2, "{deployment}");
    }
    let proxied =
        templated(&["deployments.extraEnv[0].name=NO_PROXY", "deployments.extraEnv[0].value=.svc"])?;
    let env = container(&proxied, OPERATOR_CONTROLLER)?["env"].as_array().context("env")?;
    assert_eq!(env.iter().filter_map(|one| one["name"].as_str()).collect::<Vec<_>>(), ["NO_PROXY"]);
    Ok(())
}

#[test]
fn values_that_cannot_be_followed_are_refused_with_a_sentence() {
    for (values, told) in [
        (&["options.tilt.enabled=true"][..], "options.tilt.enabled: this chart has no such variant"),
        (&["options.catalogd.enabled=false"], "options.catalogd.enabled: extensions need catalogs"),
        (
            &["options.operatorController.enabled=false"],
            "options.operatorController.enabled: nothing would run",
        ),
        (
            &["options.operatorController.features.disabled={BoxcutterRuntime}"],
            "BoxcutterRuntime is the only runtime",
        ),
        (&["options.openshift.catalogs.version=4.20"], "catalogs are not part of the release"),
        (
            &["options.catalogd.deployment.extraArguments={--gc-interval=1h}"],
            "options.catalogd.deployment.extraArguments: operator-controller serves the catalogs",
        ),
        (
            &["options.catalogd.deployment.podLabels.team=olm"],
            "options.catalogd.deployment.podLabels: operator-controller serves the catalogs",
        ),
    ] {
        let error = templated(values).map(|objects| objects.len()).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn the_split_installation_shows_what_upstreams_suite_looks_at() -> Result<()> {
    let objects = kustomized("overlays/split")?;
    for (deployment, name) in [(OPERATOR_CONTROLLER, "operator-controller"), (CATALOGD, "catalogd")] {
        let object = find(&objects, "Deployment", deployment)?;
        let labels = &object["metadata"]["labels"];
        assert_eq!(
            (&labels["app.kubernetes.io/part-of"], &labels["app.kubernetes.io/name"]),
            (&json!("olm"), &json!(name))
        );
        assert_eq!(object["metadata"]["namespace"], "olmv1-system");
        assert_eq!(object["spec"]["replicas"], 2);
        assert_eq!(object["spec"]["selector"]["matchLabels"], json!({"control-plane": deployment}));
        assert_eq!(container(&objects, deployment)?["name"], "manager");
        let gates = args(&objects, deployment)?.into_iter().filter(|arg| arg.starts_with("--feature-gates="));
        for gate in gates {
            assert!(
                !gate.contains(',') && gate.ends_with("=true"),
                "{gate}: only one gate of a list is seen"
            );
        }
        find(&objects, "ClusterRole", &format!("{name}-metrics-reader"))?;
        let ports = find(&objects, "Service", &format!("{name}-service"))?["spec"]["ports"].as_array();
        let metrics =
            ports.into_iter().flatten().find(|port| port["name"] == "metrics").context("metrics")?;
        assert_eq!(metrics["port"], metrics["targetPort"]);
    }
    assert!(
        args(&objects, OPERATOR_CONTROLLER)?.contains(&"--feature-gates=BoxcutterRuntime=true".to_owned())
    );
    for crd in ["clusterextensions", "clusterobjectsets"] {
        let crd = find(&objects, "CustomResourceDefinition", &format!("{crd}.olm.operatorframework.io"))?;
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(spec["properties"]["progressDeadlineMinutes"]["minimum"].is_number());
    }
    Ok(())
}

#[test]
fn the_programs_know_every_flag_of_the_manifests() -> Result<()> {
    for (overlay, objects) in installations()? {
        let program = cargo_program("operator-controller", "operator-controller")?;
        let told = run(Command::new(program).args(args(&objects, OPERATOR_CONTROLLER)?).arg("version"))?;
        assert!(told.contains("operator-controller version"), "{overlay}: {told}");
        let program = cargo_program("catalogd", "catalogd")?;
        let told = run(Command::new(program).args(args(&objects, CATALOGD)?).arg("--help"))?;
        assert!(told.contains("--catalogs-server-addr"), "{overlay}: {told}");
    }
    let program = cargo_program("olm-classic", "olm-classic")?;
    let classic = args(&kustomized("overlays/classic")?, CLASSIC)?;
    let told = run(Command::new(program).args(classic).arg("version"))?;
    assert!(told.contains("olm-classic version"), "{told}");
    Ok(())
}

#[test]
fn gates_of_catalogd_reach_the_program_that_serves_catalogs() -> Result<()> {
    let gates = [
        "options.catalogd.features.enabled={APIV1MetasHandler,GraphQLCatalogQueries}",
        "options.catalogd.features.disabled={Another}",
    ];
    let wanted = ["--feature-gates=GraphQLCatalogQueries=true", "--feature-gates=Another=false"];
    let apart = [&gates[..], &["options.catalogd.separate=true"]].concat();
    for (values, deployment, other) in
        [(&gates[..], OPERATOR_CONTROLLER, None), (&apart, CATALOGD, Some(OPERATOR_CONTROLLER))]
    {
        let objects = templated(values)?;
        let has = |deployment: &str| -> Result<bool> {
            let args = args(&objects, deployment)?;
            Ok(wanted.iter().all(|gate| args.iter().any(|arg| arg == gate)))
        };
        assert!(has(deployment)?, "{deployment}: {:?}", args(&objects, deployment)?);
        assert!(!other.map(has).transpose()?.unwrap_or_default(), "they are catalogd's");
    }
    Ok(())
}

#[test]
fn network_policies_let_in_what_containers_serve() -> Result<()> {
    for (overlay, objects) in installations()? {
        let deployments = objects.iter().filter(|((kind, ..), _)| kind == "Deployment");
        let mut seen = 0;
        for ((_, namespace, name), deployment) in deployments {
            let labels = &deployment["spec"]["template"]["metadata"]["labels"];
            let selects = |policy: &Value| {
                let wanted = policy["spec"]["podSelector"]["matchLabels"].as_object();
                wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
            };
            let numbers = |ports: &Value, field: &str| -> BTreeSet<u64> {
                ports.as_array().into_iter().flatten().filter_map(|port| port[field].as_u64()).collect()
            };
            let policies: Vec<&Value> = objects
                .iter()
                .filter(|((kind, of, _), policy)| {
                    kind == "NetworkPolicy" && of == namespace && selects(policy)
                })
                .map(|(_, policy)| policy)
                .collect();
            if deployment["spec"]["replicas"] == 0 {
                continue;
            }
            let let_in: BTreeSet<u64> = policies
                .iter()
                .flat_map(|policy| policy["spec"]["ingress"].as_array().into_iter().flatten())
                .flat_map(|rule| numbers(&rule["ports"], "port"))
                .collect();
            let container = container(&objects, name)?;
            let served = numbers(&container["ports"], "containerPort");
            assert_eq!(let_in, served, "{overlay}: {name}");
            // The ports are those that the program is told to listen on.
            let args = args(&objects, name)?;
            let flags = [
                "--metrics-bind-address=:",
                "--catalogs-server-addr=:",
                "--registry-bind-address=:",
                "--packages-bind-address=:",
            ];
            let told = flags.map(|flag| {
                args.iter().find_map(|arg| arg.strip_prefix(flag)).and_then(|port| port.parse::<u64>().ok())
            });
            let told: BTreeSet<u64> = told.into_iter().flatten().collect();
            assert_eq!(told, served, "{overlay}: {name}");
            // A Service that selects the Pods leads to one of them.
            for ((_, of, service), object) in objects.iter().filter(|((kind, ..), _)| kind == "Service") {
                let selector = object["spec"]["selector"].as_object().filter(|_| of == namespace);
                if selector.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value)) {
                    let led = numbers(&object["spec"]["ports"], "targetPort");
                    assert!(
                        led.is_subset(&served),
                        "{overlay}: {service} leads to {led:?}, served: {served:?}"
                    );
                }
            }
            seen += 1;
        }
        assert!(seen > 0, "{overlay}: no Deployment");
    }
    Ok(())
}
