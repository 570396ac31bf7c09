//! Requirements as properties declare them.

use std::{collections::BTreeSet, fmt};

use olm_cel::{Budget, Patterns};
use olm_fbc::{
    PROPERTY_CONSTRAINT, PROPERTY_GVK, PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE_REQUIRED, Property,
};
use olm_go::Quoted;
use olm_object::GroupVersionKind;
use olm_semver::SkipRange;
use olm_text::one_line;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    RequirementError,
    cel::Expression,
    limits::{
        COMPILED_EXPRESSIONS_STEPS_MAX, CONSTRAINT_BYTES_MAX, CONSTRAINT_DEPTH_MAX, CONSTRAINTS_MAX,
        FAILURE_MESSAGE_BYTES_MAX, REQUIREMENTS_MAX,
    },
};

/// Something a bundle needs. Displays as a noun phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The author's message for when it is not met, cut and without control characters.
    pub failure_message: Option<String>,
    pub(crate) predicate: Predicate,
}

/// A statement about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Predicate {
    Package { name: String, range: Option<SkipRange> },
    Kind(GroupVersionKind),
    Expression(Expression),
    All(Vec<Requirement>),
    Any(Vec<Requirement>),
    Not(Vec<Requirement>),
}

/// The requirements that `properties` declare, in their order and each once. Kinds that the bundle itself
/// provides by these properties are no requirements.
///
/// # Errors
/// See [`RequirementError`].
pub fn requirements(properties: &[Property]) -> Result<Vec<Requirement>, RequirementError> {
    let own: Vec<GroupVersionKind> = provided_kinds(properties).collect();
    let mut found: Vec<Requirement> = Vec::new();
    let mut compiler = Compiler::new(Budget::new(COMPILED_EXPRESSIONS_STEPS_MAX));
    for property in properties {
        if let Some(one) = declared(property, &mut compiler)?
            && !found.contains(&one)
        {
            found.push(one);
        }
    }
    found.retain(|one| !matches!(&one.predicate, Predicate::Kind(kind) if own.contains(kind)));
    if found.len() > REQUIREMENTS_MAX {
        return Err(RequirementError::TooMany(found.len()));
    }
    Ok(found)
}

/// The types of properties that declare requirements.
pub const REQUIREMENTS: [&str; 3] = [PROPERTY_PACKAGE_REQUIRED, PROPERTY_GVK_REQUIRED, PROPERTY_CONSTRAINT];

/// The requirement that a property declares, if it declares one.
pub(crate) fn declared(
    property: &Property,
    compiler: &mut Compiler,
) -> Result<Option<Requirement>, RequirementError> {
    let predicate = match property.kind.as_str() {
        PROPERTY_PACKAGE_REQUIRED => package(&property.value, PROPERTY_PACKAGE_REQUIRED)?,
        PROPERTY_GVK_REQUIRED => Predicate::Kind(kind(&property.value, PROPERTY_GVK_REQUIRED)?),
        PROPERTY_CONSTRAINT => return constraint(&property.value, compiler).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(Requirement { failure_message: None, predicate }))
}

/// The patterns and the budget of expressions that are compiled together.
pub(crate) struct Compiler {
    patterns: Patterns,
    pub(crate) budget: Budget,
}

impl Compiler {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { patterns: Patterns::default(), budget }
    }
}

/// The kinds that `properties` say the bundle provides; malformed ones are none.
pub(crate) fn provided_kinds(properties: &[Property]) -> impl Iterator<Item = GroupVersionKind> {
    properties
        .iter()
        .filter(|property| property.kind == PROPERTY_GVK)
        .filter_map(|property| GroupVersionKind::deserialize(&property.value).ok())
}

fn malformed(property: &'static str, cause: impl Into<String>) -> RequirementError {
    RequirementError::Malformed { property, cause: cause.into() }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPackage {
    #[serde(default)]
    package_name: String,
    #[serde(default)]
    version_range: String,
}

fn package(value: &Value, property: &'static str) -> Result<Predicate, RequirementError> {
    let raw = RawPackage::deserialize(value)
        .map_err(|_| malformed(property, "want {\"packageName\": text, \"versionRange\": text}"))?;
    if raw.package_name.is_empty() {
        return Err(malformed(property, "packageName is empty"));
    }
    // Without a range any version will do, as in OLM Classic.
    let range = match raw.version_range.trim() {
        "" => None,
        text => Some(text.parse().map_err(|error| {
            let (name, range) = (Quoted(&raw.package_name), Quoted(text));
            malformed(property, format!("package {name}: version range {range} is invalid: {error}"))
        })?),
    };
    Ok(Predicate::Package { name: raw.package_name, range })
}

fn kind(value: &Value, property: &'static str) -> Result<GroupVersionKind, RequirementError> {
    let kind = GroupVersionKind::deserialize(value)
        .map_err(|_| malformed(property, "want {\"group\": text, \"version\": text, \"kind\": text}"))?;
    if kind.version.is_empty() || kind.kind.is_empty() {
        return Err(malformed(property, "version or kind is empty"));
    }
    Ok(kind)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawConstraint {
    #[serde(default)]
    failure_message: Option<String>,
    gvk: Option<Value>,
    package: Option<Value>,
    cel: Option<RawExpression>,
    all: Option<RawCompound>,
    any: Option<RawCompound>,
    not: Option<RawCompound>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpression {
    #[serde(default)]
    rule: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompound {
    #[serde(default)]
    constraints: Vec<Value>,
}

fn constraint(value: &Value, compiler: &mut Compiler) -> Result<Requirement, RequirementError> {
    if value.to_string().len() > CONSTRAINT_BYTES_MAX {
        return Err(RequirementError::ConstraintSize);
    }
    read_constraint(value, 1, &mut 0, compiler)
}

fn read_constraint(
    value: &Value,
    depth: usize,
    count: &mut usize,
    compiler: &mut Compiler,
) -> Result<Requirement, RequirementError> {
    *count += 1;
    if *count > CONSTRAINTS_MAX {
        return Err(malformed(
            PROPERTY_CONSTRAINT,
            format!("more than {CONSTRAINTS_MAX} constraints in one"),
        ));
    }
    if depth > CONSTRAINT_DEPTH_MAX {
        let cause = format!("constraints are nested deeper than {CONSTRAINT_DEPTH_MAX}");
        return Err(malformed(PROPERTY_CONSTRAINT, cause));
    }
    let raw = RawConstraint::deserialize(value).map_err(|_| {
        malformed(
            PROPERTY_CONSTRAINT,
            "want one of gvk, package, cel, all, any, not, and failureMessage, nothing else",
        )
    })?;
    let present = [
        ("gvk", raw.gvk.is_some()),
        ("package", raw.package.is_some()),
        ("cel", raw.cel.is_some()),
        ("all", raw.all.is_some()),
        ("any", raw.any.is_some()),
        ("not", raw.not.is_some()),
    ];
    let named: Vec<&'static str> = present.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if named.len() > 1 {
        // OLM Classic silently takes one of them.
        let cause = format!("a constraint has {}, exactly one is allowed", named.join(" and "));
        return Err(malformed(PROPERTY_CONSTRAINT, cause));
    }
    let empty = || malformed(PROPERTY_CONSTRAINT, "constraint is empty");
    let mut members = |compound: RawCompound| -> Result<Vec<Requirement>, RequirementError> {
        if compound.constraints.is_empty() {
            return Err(empty());
        }
        compound.constraints.iter().map(|one| read_constraint(one, depth + 1, count, compiler)).collect()
    };
    let predicate = match raw {
        RawConstraint { gvk: Some(value), .. } => Predicate::Kind(kind(&value, PROPERTY_CONSTRAINT)?),
        RawConstraint { package: Some(value), .. } => package(&value, PROPERTY_CONSTRAINT)?,
        RawConstraint { cel: Some(cel), .. } => Predicate::Expression(Expression::compile(
            &cel.rule,
            &mut compiler.patterns,
            &mut compiler.budget,
        )?),
        RawConstraint { all: Some(all), .. } => Predicate::All(members(all)?),
        RawConstraint { any: Some(any), .. } => Predicate::Any(members(any)?),
        RawConstraint { not: Some(not), .. } => Predicate::Not(members(not)?),
        _ => return Err(empty()),
    };
    Ok(Requirement { failure_message: raw.failure_message.as_deref().and_then(shown), predicate })
}

/// A message as it is shown; `None` when nothing is left of it.
fn shown(message: &str) -> Option<String> {
    let mut message = one_line(message.trim()).into_owned();
    if message.len() > FAILURE_MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(FAILURE_MESSAGE_BYTES_MAX));
        message.push('…');
    }
    (!message.is_empty()).then_some(message)
}

impl Requirement {
    /// Each package that would meet the requirement, or a part of it, with its range as written.
    pub fn packages(&self) -> Vec<(&str, Option<String>)> {
        let mut packages = Vec::new();
        for leaf in self.leaves() {
            if let Predicate::Package { name, range } = leaf {
                packages.push((name.as_str(), range.as_ref().map(ToString::to_string)));
            }
        }
        packages
    }

    /// Each kind that it asks for, at any depth.
    pub fn kinds(&self) -> Vec<&GroupVersionKind> {
        let leaves = self.leaves().into_iter();
        leaves.filter_map(|leaf| if let Predicate::Kind(kind) = leaf { Some(kind) } else { None }).collect()
    }

    /// Texts of which one is in the properties of each bundle that meets the requirement otherwise than by its
    /// package's name: names of kinds, and the search term of each expression.
    pub fn search_terms(&self) -> BTreeSet<&str> {
        let leaves = self.leaves().into_iter();
        let terms = leaves.filter_map(|leaf| match leaf {
            Predicate::Kind(kind) => Some(kind.kind.as_str()),
            Predicate::Expression(expression) => expression.search_term(),
            _ => None,
        });
        terms.collect()
    }

    /// Whether it says what must not be installed.
    pub fn is_conflict(&self) -> bool {
        matches!(self.predicate, Predicate::Not(_))
    }

    /// Everything that is asked for; what is asked not to be is left out.
    fn leaves(&self) -> Vec<&Predicate> {
        match &self.predicate {
            Predicate::Not(_) => Vec::new(),
            Predicate::All(members) | Predicate::Any(members) => {
                members.iter().flat_map(Self::leaves).collect()
            }
            leaf => vec![leaf],
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |f: &mut fmt::Formatter<'_>, before: &str, between: &str, members: &[Self]| {
            f.write_str(before)?;
            for (i, member) in members.iter().enumerate() {
                if i > 0 {
                    f.write_str(between)?;
                }
                member.describe(f)?;
            }
            f.write_str(")")
        };
        match &self.predicate {
            Predicate::Package { name, range: None } => write!(f, "package {} in any version", Quoted(name)),
            Predicate::Package { name, range: Some(range) } => {
                write!(f, "package {} in version range {}", Quoted(name), Quoted(&range.to_string()))
            }
            Predicate::Kind(kind) => write!(f, "kind {kind}"),
            Predicate::Expression(expression) => {
                write!(f, "a bundle for whose properties {} holds", Quoted(expression.text()))
            }
            Predicate::All(members) => several(f, "one bundle that is all of (", " and ", members),
            Predicate::Any(members) => several(f, "any of (", " or ", members),
            Predicate::Not(members) => several(f, "the absence of (", " and ", members),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)?;
        match &self.failure_message {
            Some(message) => write!(f, " (the author says: {message})"),
            None => Ok(()),
        }
    }
}
