//! Operators that queries get before they are planned, and that are taken away again while operators are planned.

/// The operator that gives a predicate over a subquery a name.
pub(crate) const APART: &str = "__firndb_apart";

/// The operator of a condition and the clause that it stands in.
pub(crate) const TRUTH: &str = "__firndb_truth";

/// The operator that gives an argument a name.
pub(crate) const NAMED: &str = "__firndb_named";

/// The operator that gives the CASEs of a value the types of all of their branches.
pub(crate) const DECIDED: &str = "__firndb_decided";
