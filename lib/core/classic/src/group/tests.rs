//! The rules of intersecting groups, against the same rules written down naively, over random groups.

use proptest::prelude::*;

use super::{
    membership::Group,
    provided::{Api, Apis, Member, Outcome, annotation, apis_of, decide, intersecting, overlaps, pruned},
};

fn apis() -> impl Strategy<Value = Apis> {
    let api = (0..3_u8).prop_map(|n| Api {
        kind: format!("Kind{n}"),
        version: "v1".to_owned(),
        group: "example.com".to_owned(),
    });
    prop::collection::btree_set(api, 0..3)
}

fn group() -> impl Strategy<Value = Group> {
    let targets = prop_oneof![
        1 => Just([String::new()].into()),
        4 => prop::collection::btree_set((0..4_u8).prop_map(|n| format!("ns{n}")), 0..3),
    ];
    (0..4_u8, 0..2_u8, targets, any::<bool>(), apis()).prop_map(
        |(namespace, name, targets, is_static, provided)| Group {
            name: format!("g{name}"),
            namespace: format!("ns{namespace}"),
            targets,
            is_static,
            provided,
            ..Group::default()
        },
    )
}

/// Whether a group's APIs count in a namespace, one namespace at a time.
fn reaches(group: &Group, namespace: &str) -> bool {
    if group.targets.is_empty() {
        return false;
    }
    let is_global = group.targets.iter().any(String::is_empty);
    is_global || group.namespace == namespace || group.targets.iter().any(|target| target == namespace)
}

proptest! {
    #[test]
    fn groups_overlap_where_a_namespace_is_reached_by_both(one in group(), other in group()) {
        let shared = (0..5).any(|n| {
            let namespace = format!("ns{n}");
            reaches(&one, &namespace) && reaches(&other, &namespace)
        });
        prop_assert_eq!(overlaps(&one, &other), shared);
        prop_assert_eq!(overlaps(&other, &one), shared);
    }

    #[test]
    fn the_apis_of_others_count_where_they_overlap(group in group(), others in prop::collection::vec(group(), 0..4)) {
        let mut wanted = Apis::new();
        for other in &others {
            let is_same = other.name == group.name && other.namespace == group.namespace;
            if !is_same && overlaps(&group, other) {
                wanted.extend(other.provided.iter().cloned());
            }
        }
        prop_assert_eq!(intersecting(&group, &others), wanted);
    }

    #[test]
    fn each_of_the_eight_cells_has_its_outcome(group in group(), provided in apis(), others in apis()) {
        let conflicts = provided.iter().any(|api| others.contains(api));
        let listed = provided.iter().all(|api| group.provided.contains(api));
        let mut union = group.provided.clone();
        union.extend(provided.iter().cloned());
        let mut difference = group.provided.clone();
        difference.retain(|api| !provided.contains(api));
        let wanted = match (conflicts, listed, group.is_static) {
            (false, true, _) => Outcome::Continue,
            (false, false, true) | (true, true, true) => Outcome::CannotModifyStatic,
            (false, false, false) => Outcome::Provide(union),
            (true, false, _) => Outcome::Conflict,
            (true, true, false) => Outcome::Provide(difference),
        };
        prop_assert_eq!(decide(&provided, &group, &others), wanted);
    }

    /// The rules as they are written: one namespace, one group and one API at a time.
    #[test]
    fn the_outcome_is_that_of_the_rules_as_written(
        group in group(),
        others in prop::collection::vec(group(), 0..4),
        provided in apis(),
    ) {
        let contended = |api: &Api| {
            (0..5).any(|n| {
                let namespace = format!("ns{n}");
                others.iter().any(|other| {
                    let is_same = (&other.namespace, &other.name) == (&group.namespace, &group.name);
                    let is_there = reaches(other, &namespace) && reaches(&group, &namespace);
                    !is_same && is_there && other.provided.contains(api)
                })
            })
        };
        let conflicts = provided.iter().any(contended);
        let is_listed = provided.iter().all(|api| group.provided.contains(api));
        let changed = |keep: &dyn Fn(&Api) -> bool| -> Apis {
            let known = group.provided.iter().chain(&provided);
            known.filter(|api| keep(api)).cloned().collect()
        };
        let wanted = if !conflicts && is_listed {
            Outcome::Continue
        } else if conflicts && !is_listed {
            Outcome::Conflict
        } else if group.is_static {
            Outcome::CannotModifyStatic
        } else if conflicts {
            Outcome::Provide(changed(&|api| !provided.contains(api)))
        } else {
            Outcome::Provide(changed(&|_| true))
        };
        prop_assert_eq!(decide(&provided, &group, &intersecting(&group, &others)), wanted);
    }

    /// Whatever the order in which two operators are reconciled, both do not go on in a namespace that they share.
    #[test]
    fn two_groups_never_provide_one_api_in_a_namespace(
        mut groups in prop::collection::vec(group(), 2..4),
        provided in prop::collection::vec(apis(), 3),
        order in prop::collection::vec(0..3_usize, 0..24),
    ) {
        groups.sort_by_key(|group| (group.namespace.clone(), group.name.clone()));
        groups.dedup_by_key(|group| (group.namespace.clone(), group.name.clone()));
        // What the annotations listed before the operators came.
        for group in groups.iter_mut().filter(|group| !group.is_static) {
            group.provided.clear();
        }
        for at in order.into_iter().chain([0, 1, 2, 0, 1, 2, 0, 1, 2]) {
            let Some(group) = groups.get(at).cloned() else { continue };
            if let Outcome::Provide(apis) = decide(&provided[at], &group, &intersecting(&group, &groups)) {
                groups[at].provided = apis;
            }
        }
        let goes_on = |at: usize| {
            let group = &groups[at];
            decide(&provided[at], group, &intersecting(group, &groups)) == Outcome::Continue
        };
        for one in 0..groups.len() {
            for other in 0..one {
                let shared = overlaps(&groups[one], &groups[other]) && !provided[one].is_disjoint(&provided[other]);
                prop_assert!(!(shared && goes_on(one) && goes_on(other)), "{:?}", groups);
            }
        }
    }

    #[test]
    fn what_no_operator_provides_any_more_is_pruned(
        group in group(),
        members in prop::collection::vec((apis(), any::<bool>()), 0..4),
    ) {
        let members: Vec<_> =
            members.into_iter().map(|(provided, is_new)| Member { provided, is_new }).collect();
        let adds = members.iter().any(|m| m.is_new && m.provided.iter().any(|api| !group.provided.contains(api)));
        let after = pruned(&group, &members);
        if group.is_static || adds {
            prop_assert_eq!(after, None);
        } else {
            let is_provided = |api: &Api| members.iter().any(|member| member.provided.contains(api));
            let after = after.unwrap_or_else(|| group.provided.clone());
            for api in &group.provided {
                prop_assert_eq!(after.contains(api), is_provided(api));
            }
            prop_assert!(after.is_subset(&group.provided));
        }
    }

    #[test]
    fn an_annotation_is_read_as_it_is_written(apis in apis()) {
        prop_assert_eq!(apis_of(&annotation(&apis)), apis.clone());
        prop_assert_eq!(apis_of(&annotation(&apis).replace(',', " , ")), apis);
    }
}
