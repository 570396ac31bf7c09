//! Validation rules.

use serde_json::{Value, json};

use super::validate;
use crate::Tristate;

/// Tristate on a spec whose schema, an object of a few fields, has the rule.
fn is_valid(rule: &str, spec: &Value) -> Tristate {
    let schema = json!({
        "type": "object",
        "properties": {
            "s": {"type": "string"},
            "n": {"type": "string", "nullable": true},
            "i": {"type": "integer"},
            "j": {"type": "integer"},
            "f": {"type": "number"},
            "b": {"type": "boolean"},
            "either": {"x-kubernetes-int-or-string": true},
            "wait": {"type": "string", "format": "duration"},
            "when": {"type": "string", "format": "date-time"},
            "namespace": {"type": "string"},
            "a-b.c": {"type": "string"},
            "list": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
        },
        "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
    });
    validate(&schema, spec).is_valid()
}

#[test]
fn rules_that_hold() {
    for (rule, spec) in [
        ("true", json!({})),
        ("!has(self.s)", json!({})),
        ("has(self.s) && self.s == 'a'", json!({"s": "a"})),
        ("has(self.s) ? self.s != '' : true", json!({})),
        (
            "self.i <= self.j && self.i + 1 == 2 && self.j / 2 * 2 + self.j % 2 == self.j",
            json!({"i": 1, "j": 3}),
        ),
        ("self.f == 1.0 && self.f < 2", json!({"f": 1})),
        ("self.s in ['a', 'b']", json!({"s": "b"})),
        ("self.s.matches('^[a-z]+$') && matches(self.s, r'\\w')", json!({"s": "ab"})),
        ("self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b')", json!({"s": "abc"})),
        ("size(self.s) == 3 && self.s.size() == 3", json!({"s": "é日x"})),
        (
            "self.s.lowerAscii() == 'a' && self.s.upperAscii() == 'A' && ' a '.trim() == 'a'",
            json!({"s": "A"}),
        ),
        ("self.s.split('/')[1] == 'b' && self.s.replace('/', '-') == 'a-b'", json!({"s": "a/b"})),
        (
            "self.s.indexOf('b') == 1 && self.s.substring(1) == 'b' && self.s.substring(0, 1) == 'a'",
            json!({"s": "ab"}),
        ),
        ("self.list.all(x, x.size() > 0) && self.list.exists(x, x == 'b')", json!({"list": ["a", "b"]})),
        (
            "self.list.exists_one(x, x == 'a') && self.list.filter(x, x == 'a').size() == 1",
            json!({"list": ["a", "b"]}),
        ),
        (
            "self.list.map(x, x + '!') == ['a!'] && self.list.map(x, x == 'a', x) == ['a']",
            json!({"list": ["a"]}),
        ),
        (
            "self.list == ['a'] && self.list + ['b'] == ['a', 'b'] && self.list.join(',') == 'a'",
            json!({"list": ["a"]}),
        ),
        (
            "self.set == [2, 1] && self.set.sum() == 3 && self.set.max() == 2 && self.set.isSorted()",
            json!({"set": [1, 2]}),
        ),
        (
            "'x' in self.map && self.map['x'] == 1 && self.map.all(k, self.map[k] > 0) && self.map.size() == 1",
            json!({"map": {"x": 1}}),
        ),
        (
            "self.items.all(i, self.items.exists_one(j, j.name == i.name))",
            json!({"items": [{"name": "a"}, {"name": "b"}]}),
        ),
        ("self.items[0].port == 80 && self.items == [self.items[0]]", json!({"items": [{"port": 80}]})),
        (
            "self.__namespace__ == 'x' && self.a__dash__b__dot__c == 'y'",
            json!({"namespace": "x", "a-b.c": "y"}),
        ),
        (
            "type(self.either) == string ? self.either.endsWith('%') : self.either < 5",
            json!({"either": "5%"}),
        ),
        ("type(self.either) == int && self.either == 3", json!({"either": 3})),
        ("self.wait > duration('1m') && duration('60s') == duration('1m')", json!({"wait": "1h"})),
        ("self.n == null", json!({"n": null})),
        ("!(has(self.when) && self.s == 'x')", json!({"s": "a", "when": "2024-01-01T00:00:00Z"})),
        ("{'a': 1}.a == 1 && -self.i == -2 && -(1.5) < 0.0", json!({"i": 2})),
        ("int('3') == 3 && string(3) == '3' && double(3) == 3.0 && dyn(1) == 1.0 && bool('true')", json!({})),
        // An operand that decides wins over one that fails, on either side.
        ("self.s == 'a' || true", json!({})),
        ("!(self.s == 'a' && false)", json!({})),
        ("self.list.exists(x, x == 'b' || self.s == '')", json!({"list": ["a", "b"]})),
        ("self.free == self.free", json!({"free": {"a": [1]}})),
    ] {
        assert_eq!(is_valid(rule, &spec), Tristate::Yes, "{rule} on {spec}");
    }
}

#[test]
fn rules_that_do_not_hold_or_fail() {
    for (rule, spec) in [
        ("false", json!({})),
        ("self.s == 'a'", json!({"s": "b"})),
        // There is no such field, element or key.
        ("self.s == 'a'", json!({})),
        ("self.list[0] == 'a'", json!({"list": []})),
        ("self.map['x'] == 1", json!({"map": {}})),
        ("1 / 0 == 1", json!({})),
        ("self.i * self.i > 0", json!({"i": 9_000_000_000_000_000_000_i64})),
        ("self.list.all(x, x == 'a')", json!({"list": ["a", "b"]})),
        ("self.list.exists(x, x == 'c')", json!({"list": ["a", "b"]})),
        ("self.list.exists_one(x, x != '')", json!({"list": ["a", "b"]})),
        ("int(self.s) == 1", json!({"s": "x"})),
        ("self.s != null && self.n != null", json!({"s": "a", "n": null})),
    ] {
        assert_eq!(is_valid(rule, &spec), Tristate::No, "{rule} on {spec}");
    }
}

#[test]
fn rules_that_are_not_understood_are_undecided() {
    let many: Vec<String> = (0..300).map(|i| format!("item {i}")).collect();
    for (rule, spec) in [
        ("self.?s.orValue('') == 'a'", json!({"s": "a"})),
        ("quantity(self.s).isGreaterThan(quantity('1'))", json!({"s": "1Gi"})),
        ("self.when > timestamp('2024-01-01T00:00:00Z')", json!({"when": "2024-01-01T00:00:00Z"})),
        ("isURL(self.s)", json!({"s": "http://a"})),
        ("self.s.matches('(?=a)')", json!({"s": "a"})),
        ("self.s.format([1]) == ''", json!({"s": "a"})),
        ("nonsense", json!({})),
        ("self.s", json!({"s": "a"})),
        ("self.list.all(a, self.list.all(b, self.list.all(c, a + b + c != '')))", json!({"list": many})),
        ("((", json!({})),
    ] {
        assert_eq!(is_valid(rule, &spec), Tristate::Undecided, "{rule} on {spec}");
    }
    // One that is false decides beside one that is undecided.
    assert_eq!(is_valid("isURL(self.s) && self.s == 'b'", &json!({"s": "a"})), Tristate::No);
}

#[test]
fn rules_on_changes_do_not_apply_to_stored_objects() {
    let schema = |optional: bool| json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "optionalOldSelf": optional}]});
    let validation = validate(&schema(false), &json!("a"));
    assert_eq!((validation.is_valid(), validation.transition_rules), (Tristate::Yes, 1));
    assert_eq!(validate(&schema(true), &json!("a")).is_valid(), Tristate::Undecided);
}

#[test]
fn rules_apply_at_every_depth() {
    let positive = json!([{"rule": "self > 0"}]);
    let integer = json!({"type": "integer", "x-kubernetes-validations": positive});
    for (schema, spec) in [
        (json!({"type": "object", "properties": {"a": integer}}), json!({"a": 0})),
        (json!({"type": "object", "additionalProperties": integer}), json!({"a": 0})),
        (json!({"type": "array", "items": integer}), json!([1, 0])),
        (json!({"type": "integer", "allOf": [{"x-kubernetes-validations": positive}]}), json!(0)),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}},
                "allOf": [{"properties": {"a": {"x-kubernetes-validations": positive}}}]}),
            json!({"a": 0}),
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-validations": [{"rule": "self.metadata.name != 'a' && self.kind == 'Pod'"}]}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
        ),
    ] {
        let validation = validate(&schema, &spec);
        assert_eq!(validation.is_valid(), Tristate::No, "{spec} with {schema}");
    }
}
