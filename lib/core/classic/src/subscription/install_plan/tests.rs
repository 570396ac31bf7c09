use super::*;

fn subscription(name: &str, noted: i64) -> Subscription {
    let object = json!({
        "metadata": {"name": name, "uid": format!("uid of {name}")},
        "spec": {"name": name, "source": "cat", "sourceNamespace": "olm"},
        "status": {"installPlanGeneration": noted},
    });
    serde_json::from_value(object).unwrap()
}

fn csv_step(name: &str) -> Step {
    Step {
        resolving: name.to_owned(),
        resource: StepResource {
            kind: "ClusterServiceVersion".to_owned(),
            name: name.to_owned(),
            source_name: "cat".to_owned(),
            ..StepResource::default()
        },
        status: "Unknown".to_owned(),
        ..Step::default()
    }
}

fn draft<'a>(subscriptions: &'a [&'a Subscription], steps: &'a [Step], generation: i64) -> Draft<'a> {
    Draft { namespace: "ns", subscriptions, approval: "Automatic", generation, steps, lookups: &[] }
}

#[test]
fn a_plan_is_owned_by_its_subscriptions_and_named_after_its_content() {
    let lamp = subscription("lamp", 0);
    let (all, steps) = ([&lamp], [csv_step("lamp.v1"), csv_step("cord.v1")]);
    let plan = draft(&all, &steps, 1).plan();
    assert_eq!(plan.spec.cluster_service_version_names, ["cord.v1", "lamp.v1"]);
    assert!(plan.spec.approved && plan.spec.generation == Some(1));
    let owner = &plan.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.block_owner_deletion), ("uid of lamp", Some(false)));
    let name = plan.metadata.name.clone().unwrap();
    assert!(name.len() == 13 && name.starts_with("install-"), "{name}");
    assert_eq!(draft(&all, &steps, 1).plan().metadata.name, Some(name.clone()), "the same again");
    assert_ne!(draft(&all, &steps, 2).plan().metadata.name, Some(name));
}

#[test]
fn a_plan_begins_with_installing_or_waits_for_approval() {
    let lamp = subscription("lamp", 0);
    let (all, steps) = ([&lamp], [csv_step("lamp.v1")]);
    let automatic = draft(&all, &steps, 1);
    assert_eq!(automatic.status().phase, "Installing");
    assert_eq!(automatic.status().catalog_sources, ["cat"]);
    let manual = Draft { approval: "Manual", ..automatic };
    assert_eq!(manual.status().phase, "RequiresApproval");
    assert!(!manual.plan().spec.approved);
}

#[test]
fn a_plan_that_was_made_before_the_process_ended_is_found_again() {
    let lamp = subscription("lamp", 3);
    let (all, steps) = ([&lamp], [csv_step("lamp.v1")]);
    let made = draft(&all, &steps, 4).plan();
    let other = draft(&all, &[csv_step("lamp.v2")], 4).plan();
    let earlier = draft(&all, &steps, 3).plan();
    let next = draft(&all, &steps, 5);
    assert_eq!(next.orphaned([&other, &earlier, &made]), Some(&made));
    assert_eq!(next.orphaned([&other, &earlier]), None);
    let recreated = Subscription {
        metadata: ObjectMeta { uid: Some("another".to_owned()), ..lamp.metadata.clone() },
        ..lamp.clone()
    };
    assert_eq!(draft(&[&recreated], &steps, 5).orphaned([&made]), None);
}

#[test]
fn generations_count_on_from_subscriptions_and_plans() {
    let subscriptions = [subscription("a", 2), subscription("b", 5)];
    let all = [&subscriptions[0]];
    let plan = draft(&all, &[], 7).plan();
    assert_eq!(generation(&subscriptions, &[]), 5);
    assert_eq!(generation(&subscriptions, &[&plan]), 7);
    assert_eq!(generation(&[], &[]), 0);
}

#[test]
fn the_step_of_a_generated_subscription_has_upstreams_text() {
    let generated = GeneratedSubscription {
        name: "cord-alpha-cat-ns".to_owned(),
        package: "cord".to_owned(),
        channel: "alpha".to_owned(),
        catalog: "cat".to_owned(),
        catalog_namespace: "ns".to_owned(),
        starting_csv: "cord.v1".to_owned(),
    };
    let step = subscription_step("ns", &generated);
    let wanted = concat!(
        r#"{"metadata":{"name":"cord-alpha-cat-ns","namespace":"ns"},"spec":{"source":"cat","#,
        r#""sourceNamespace":"ns","name":"cord","channel":"alpha","startingCSV":"cord.v1","#,
        r#""installPlanApproval":"Automatic"},"status":{"lastUpdated":null}}"#,
        "\n"
    );
    assert_eq!(step.resource.manifest.as_deref(), Some(wanted));
    assert_eq!((step.resolving.as_str(), step.resource.kind.as_str()), ("cord.v1", "Subscription"));
}

#[test]
fn a_lookup_has_the_properties_of_the_catalog() {
    let properties =
        [Property { kind: "olm.package".to_owned(), value: r#"{"packageName":"lamp"}"#.to_owned() }];
    let found = lookup(
        &Bundle { name: "lamp.v1".to_owned(), image: "r/lamp".to_owned(), ..Bundle::default() },
        &properties,
    );
    assert_eq!((found.path.as_str(), found.identifier.as_str()), ("r/lamp", "lamp.v1"));
    let wanted = r#"{"properties":[{"type":"olm.package","value":{"packageName":"lamp"}}]}"#;
    assert_eq!(found.properties.as_deref(), Some(wanted));
}
