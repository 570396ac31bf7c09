//! Limits on the rules of roles, which come from bundles. A rule of four lists stands for the product of their
//! lengths, so rules are compared as they are and split only to be shown.

/// Most rules that a report splits into single resources and names; what is beyond is reported unsplit. The largest
/// real operators come to about 2,000.
pub(crate) const SPLIT_RULES_MAX: usize = 10_000;
/// Most bytes of text in split rules.
pub(crate) const SPLIT_BYTES_MAX: usize = 4 << 20;
/// Most parts that one rule falls into when what is held is taken away from it. Each held rule can add three.
pub(crate) const PARTS_MAX: usize = 10_000;
/// Most entries in the lists of all parts.
pub(crate) const PART_ENTRIES_MAX: usize = 200_000;
/// Entries that are looked for in a held rule at the cost of one comparison, when it shares nothing.
pub(crate) const ENTRIES_PER_COMPARISON: usize = 16;
/// Most comparisons for one report, about a second: a rule with a held rule, or of an entry that they may share. What is
/// not compared any more counts as missing.
pub(crate) const COMPARISONS_MAX: usize = 5_000_000;
/// Most entries in the lists of rules that the roles of a revision grant. To install more, one must be allowed to
/// `escalate` or `bind` their roles. The largest real operators come to about 5,000.
pub(crate) const ESCALATION_ENTRIES_MAX: usize = 200_000;
