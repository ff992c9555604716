//! Arithmetic, casts and functions that do not lie.

mod aggregate;
mod arithmetic;
mod assign;
mod branches;
mod canonical_float;
mod cast;
mod comparisons;
mod convert;
mod exclusion;
mod floats;
mod functions;
mod guards;
mod in_lists;
mod inherited;
mod intervals;
mod marks;
mod nested;
mod offsets;
mod operators;
mod orders;
mod peers;
mod places;
mod planner;
mod refined;
mod semantics;
mod show;
mod told_apart;
mod untyped;

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::Analyzer;

pub use assign::assign;
pub(crate) use assign::assign_in;
pub(crate) use branches::set_inputs;
pub(crate) use canonical_float::CanonicalFloat;
pub(crate) use cast::{CAST, session_zone};
pub(crate) use convert::POWERS;
pub(crate) use exclusion::function as excluding_function;
pub(crate) use functions::{moments_as, moments_by};
pub(crate) use guards::behind as filter_behind;
pub(crate) use marks::{APART, DECIDED, NAMED, TRUTH};
pub(crate) use semantics::{expression, settled};
pub use show::show;

use crate::types::TypeNames;

/// Adds the expression planners, the type planner, functions, analyzer and optimizer rules to a session state that has
/// DataFusion's defaults already: ours come before its planners and replace its functions of the same name.
pub fn configure(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .expr_planners()
        .get_or_insert_with(Vec::new)
        .insert(0, Arc::new(planner::CheckedOperators));
    builder
        .type_planner()
        .get_or_insert_with(|| Arc::new(TypeNames::default()));
    builder
        .aggregate_functions()
        .get_or_insert_with(Vec::new)
        .extend(
            functions::aggregate_functions()
                .into_iter()
                .chain(aggregate::functions()),
        );
    builder
        .scalar_functions()
        .get_or_insert_with(Vec::new)
        .extend(functions::scalar_functions());
    let scalars = builder.scalar_functions().get_or_insert_with(Vec::new);
    let registered = std::mem::take(scalars).into_iter().map(untyped::registered);
    scalars.extend(registered);
    builder
        .higher_order_functions()
        .get_or_insert_with(Vec::new)
        .extend(
            functions::lambdas::functions()
                .into_iter()
                .chain([functions::attempts::function()]),
        );
    builder
        .window_functions()
        .get_or_insert_with(Vec::new)
        .extend(offsets::functions());
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    analyzer
        .rules
        .insert(0, Arc::new(semantics::CheckedSemantics));
    analyzer.rules.push(Arc::new(semantics::CheckedCoercions));
    builder
}
