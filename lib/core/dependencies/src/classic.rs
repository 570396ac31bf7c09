//! Requirements as OLM Classic reads and prints them: each by itself, and each about one candidate.

use olm_fbc::Property;
use olm_go::Quoted;
use olm_object::GroupVersionKind;

use crate::{
    InstalledBundle, Requirement, RequirementError, Work,
    evaluate::holds,
    requirement::{Compiler, Predicate, declared},
};

/// What all bundles that meet a requirement have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Common<'r> {
    /// They provide this kind.
    Kind(&'r GroupVersionKind),
    /// They are of this package.
    Package(&'r str),
    /// Nothing that is known without a look at each.
    Unknown,
}

impl Requirement {
    /// The requirement that a property declares; `None` for a property of another type. Compiling an expression is part of
    /// the `work`.
    ///
    /// # Errors
    /// See [`RequirementError`].
    pub fn declared(property: &Property, work: &Work) -> Result<Option<Self>, RequirementError> {
        work.compile(|budget| {
            let mut compiler = Compiler::new(budget);
            let found = declared(property, &mut compiler);
            (found, compiler.budget)
        })
    }

    /// Whether this bundle meets it. The answer means nothing if the `work` was too much.
    pub fn is_met_by(&self, bundle: &InstalledBundle<'_>, work: &Work) -> bool {
        holds(&self.predicate, bundle, work)
    }

    /// What all bundles that meet it have in common.
    pub fn common(&self) -> Common<'_> {
        match &self.predicate {
            Predicate::Kind(kind) => Common::Kind(kind),
            Predicate::Package { name, .. } => Common::Package(name),
            Predicate::All(members) => {
                let known = members.iter().map(Self::common).find(|one| *one != Common::Unknown);
                known.unwrap_or(Common::Unknown)
            }
            Predicate::Any(_) | Predicate::Not(_) | Predicate::Expression(_) => Common::Unknown,
        }
    }

    /// Whether it is about a kind or a package and nothing else.
    pub fn is_simple(&self) -> bool {
        matches!(&self.predicate, Predicate::Kind(_) | Predicate::Package { .. })
    }

    /// The requirement in OLM Classic's words. Like upstream's they do not tell `not` from `all`.
    pub fn classic_text(&self) -> String {
        let join = |members: &[Self], between: &str| {
            members.iter().map(Self::classic_text).collect::<Vec<_>>().join(between)
        };
        match &self.predicate {
            Predicate::Kind(GroupVersionKind { group, version, kind }) => {
                format!("providing an API with group: {group}, version: {version}, kind: {kind}")
            }
            Predicate::Package { name, range } => {
                let range = range.as_ref().map_or_else(String::new, ToString::to_string);
                format!("with package: {name} and with version in range: {range}")
            }
            Predicate::Expression(expression) => {
                let message = self.failure_message.as_deref().unwrap_or_default();
                format!("with constraint: {} and message: {}", Quoted(expression.text()), Quoted(message))
            }
            Predicate::All(members) | Predicate::Not(members) => join(members, " and "),
            Predicate::Any(members) => join(members, " or "),
        }
    }
}
