//! One value over rows of another table.

use millstream_core::Result;
use millstream_core::schema::{Aggregate, AggregateFunction, Operand, ValueType};

use super::decimal;
use super::fields::Planner;
use super::path::{Reached, Term, limit, order_by};
use super::relation::array_of;
use super::scope::{Column, Scope};
use super::value::{Look, Shown, json};

impl<'a> Planner<'a> {
    /// JSON text that is never NULL.
    pub fn aggregate(&mut self, row: &mut Scope<'a>, aggregate: &'a Aggregate, at: &str) -> Result<String> {
        let reached = self.reach(row, &aggregate.path, at)?;
        match &aggregate.function {
            AggregateFunction::Count => Ok(format!("(select count(*) {})", reached.from())),
            AggregateFunction::Sum(operand) => sum(reached, operand),
            AggregateFunction::Avg(operand) => average(reached, operand),
            AggregateFunction::Min(operand) => extreme("min", reached, aggregate, operand),
            AggregateFunction::Max(operand) => extreme("max", reached, aggregate, operand),
            AggregateFunction::Collect(operand) => collect(reached, aggregate, operand),
            AggregateFunction::Value(operand) => value(reached, aggregate, operand),
        }
    }
}

fn sum<'a>(mut reached: Reached<'a>, operand: &'a Operand) -> Result<String> {
    let (sql, column) = argument(&mut reached, operand)?;
    if column.is_some_and(|column| column.is_decimal_text()) {
        return Ok(decimal::sum(&sql, &reached.from()));
    }
    added("sum", &sql, reached)
}

/// A double always: of decimals, too.
fn average<'a>(mut reached: Reached<'a>, operand: &'a Operand) -> Result<String> {
    let (sql, column) = argument(&mut reached, operand)?;
    let sql = if column.is_some() { format!("cast({sql} as real)") } else { sql };
    added("avg", &sql, reached)
}

/// In one order always: floats add up differently in another.
fn added(function: &str, sql: &str, mut reached: Reached<'_>) -> Result<String> {
    let order = order_by(&reached.order(&[])?, sql);
    let shown = json("v", Look::Number);
    Ok(format!("(select {shown} from (select {function}({sql} {order}) as v {}))", reached.from()))
}

/// The least or the greatest.
fn extreme<'a>(
    function: &str,
    mut reached: Reached<'a>,
    aggregate: &'a Aggregate,
    operand: &'a Operand,
) -> Result<String> {
    let (sql, column) = argument(&mut reached, operand)?;
    let look = match &column {
        Some(column) => Look::of_column(column.info),
        None => Look::of_type(&value_type(aggregate)),
    };
    match column.filter(Column::is_decimal_text) {
        Some(column) => {
            let order = order_by(&column.terms(function == "max"), "");
            let from = reached.from();
            let shown = json(&sql, look);
            Ok(format!("coalesce((select {shown} {from} and {sql} is not null {order} limit 1), 'null')"))
        }
        None => {
            let shown = json("v", look);
            Ok(format!("(select {shown} from (select {function}({sql}) as v {}))", reached.from()))
        }
    }
}

fn collect<'a>(mut reached: Reached<'a>, aggregate: &'a Aggregate, operand: &'a Operand) -> Result<String> {
    let text = shown(&mut reached, aggregate, operand)?;
    let terms: Vec<Term> = reached.order(&aggregate.order_by)?;
    if !aggregate.path.distinct {
        return Ok(format!("coalesce({}, '[]')", array_of(&text, &terms, &reached.from(), aggregate.limit)));
    }
    // What is shown is told apart letter by letter, and keeps its first place.
    let order = order_by(&terms, &text);
    let rows = format!("select {text} as v, row_number() over ({order}) as n {}", reached.from());
    let limit = limit(aggregate.limit);
    let order_values = if limit.is_empty() { "" } else { " order by 2" };
    Ok(format!(
        "coalesce((select '[' || group_concat(v, ',' order by n) || ']' from (\
         select v, min(n) as n from ({rows}) group by v{order_values}{limit})), '[]')"
    ))
}

/// The first far row's.
fn value<'a>(mut reached: Reached<'a>, aggregate: &'a Aggregate, operand: &'a Operand) -> Result<String> {
    let text = shown(&mut reached, aggregate, operand)?;
    let order = if reached.is_single(&aggregate.path) {
        String::new()
    } else {
        format!(" {}", order_by(&reached.order(&aggregate.order_by)?, &text))
    };
    Ok(format!("coalesce((select {text} {}{order} limit 1), 'null')", reached.from()))
}

/// The operand as JSON text, `null` for NULL.
fn shown<'a>(reached: &mut Reached<'a>, aggregate: &'a Aggregate, operand: &'a Operand) -> Result<String> {
    let shown = match operand {
        Operand::Column(name) => Shown::column(reached.far.column(name)?, &aggregate.field_type, &aggregate.transforms),
        Operand::Sql(sql) => Shown::sql(reached.far.fragment(sql), &value_type(aggregate), &aggregate.transforms),
    };
    Ok(shown.or(None))
}

/// The operand as it is, and its column if it is one.
fn argument<'a>(reached: &mut Reached<'a>, operand: &'a Operand) -> Result<(String, Option<Column<'a>>)> {
    match operand {
        Operand::Column(name) => {
            let column = reached.far.column(name)?;
            Ok((column.sql.clone(), Some(column)))
        }
        Operand::Sql(sql) => Ok((reached.far.fragment(sql), None)),
    }
}

fn value_type(aggregate: &Aggregate) -> ValueType {
    ValueType { field_type: aggregate.field_type.clone(), array: false }
}
