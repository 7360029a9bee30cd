//! One value over rows of another table.

use millstream_core::Result;
use millstream_core::schema::{Aggregate, AggregateFunction, Operand, ValueType};

use super::fields::Planner;
use super::path::{Reached, limit, order, order_by};
use super::relation::array_of;
use super::scope::{Column, Scope};
use super::value::{Shown, on_one_line};

impl<'a> Planner<'a> {
    /// JSON text that is never NULL.
    pub fn aggregate(&mut self, row: &mut Scope<'a>, aggregate: &'a Aggregate, at: &str) -> Result<String> {
        if let Some(found) = self.grouped(row, aggregate, at)? {
            return Ok(found);
        }
        let reached = self.reach(row, &aggregate.path, at)?;
        match &aggregate.function {
            AggregateFunction::Count => Ok(format!("(select count(*)::text {})", reached.from())),
            AggregateFunction::Sum(operand) => total("sum", reached, operand),
            AggregateFunction::Avg(operand) => total("avg", reached, operand),
            AggregateFunction::Min(operand) => extreme("min", reached, operand),
            AggregateFunction::Max(operand) => extreme("max", reached, operand),
            AggregateFunction::Collect(operand) => collect(reached, aggregate, operand),
            AggregateFunction::Value(operand) => value(reached, aggregate, operand),
        }
    }

    /// The same of rows that are grouped for all of `row`'s; `None` where that can't be.
    fn grouped(&mut self, row: &mut Scope<'a>, aggregate: &'a Aggregate, at: &str) -> Result<Option<String>> {
        let can = match &aggregate.function {
            AggregateFunction::Count | AggregateFunction::Sum(_) | AggregateFunction::Avg(_) => true,
            // Of equal values with several texts any may be shown.
            AggregateFunction::Min(Operand::Column(name)) | AggregateFunction::Max(Operand::Column(name)) => {
                let info = self.catalog().table(&aggregate.path.table).and_then(|info| info.column(name));
                info.is_some_and(|column| column.one_text_per_value)
            }
            AggregateFunction::Collect(_) => aggregate.limit.is_none(),
            _ => false,
        };
        let Some(number) = (if can { self.group(row, &aggregate.path, at)? } else { None }) else { return Ok(None) };
        let group = &mut row.groups[number];
        let far = group.far();
        let (text, none) = match &aggregate.function {
            AggregateFunction::Count => ("count(*)::text".to_owned(), "0"),
            AggregateFunction::Sum(operand) => (total_of("sum", far, operand)?, "null"),
            AggregateFunction::Avg(operand) => (total_of("avg", far, operand)?, "null"),
            AggregateFunction::Min(operand) => (extreme_of("min", far, operand)?, "null"),
            AggregateFunction::Max(operand) => (extreme_of("max", far, operand)?, "null"),
            AggregateFunction::Collect(operand) | AggregateFunction::Value(operand) => {
                let text = shown(far, aggregate, operand)?;
                let terms = order(far, &aggregate.order_by)?;
                (format!("'[' || string_agg({text}, ',' {}) || ']'", order_by(&terms, &text)), "[]")
            }
        };
        Ok(Some(format!("coalesce({}, '{none}')", group.output(text))))
    }
}

/// A sum or an average.
fn total<'a>(function: &str, mut reached: Reached<'a>, operand: &'a Operand) -> Result<String> {
    let text = total_of(function, &mut reached.far, operand)?;
    Ok(format!("coalesce((select {text} {}), 'null')", reached.from()))
}

fn total_of<'a>(function: &str, far: &mut Scope<'a>, operand: &'a Operand) -> Result<String> {
    let (sql, column) = argument(far, operand)?;
    // Floats add up differently in another order; of the author's SQL only the server knows the type.
    let floats = column.as_ref().is_none_or(|column| matches!(column.info.base_type.as_str(), "float4" | "float8"));
    let order =
        if floats { format!(" {}", order_by(&order(far, &[])?, &format!("({sql})::text"))) } else { String::new() };
    Ok(format!("to_json({function}({sql}{order}))::text"))
}

/// The least or the greatest.
fn extreme<'a>(function: &str, mut reached: Reached<'a>, operand: &'a Operand) -> Result<String> {
    let text = extreme_of(function, &mut reached.far, operand)?;
    Ok(format!("coalesce((select {text} {}), 'null')", reached.from()))
}

fn extreme_of<'a>(function: &str, far: &mut Scope<'a>, operand: &'a Operand) -> Result<String> {
    let (sql, column) = argument(far, operand)?;
    // These have an order but no aggregate.
    let ordered = column.filter(|column| !column.info.is_array).is_some_and(|column| {
        matches!(
            column.info.base_type.as_str(),
            "uuid" | "bool" | "bytea" | "macaddr" | "macaddr8" | "jsonb" | "bit" | "varbit"
        )
    });
    let found = if ordered {
        let descending = if function == "max" { " desc" } else { "" };
        format!("(array_agg({sql} order by {sql}{descending}) filter (where {sql} is not null))[1]")
    } else {
        format!("{function}({sql})")
    };
    Ok(on_one_line(&format!("to_json({found})::text")))
}

fn collect<'a>(mut reached: Reached<'a>, aggregate: &'a Aggregate, operand: &'a Operand) -> Result<String> {
    let text = shown(&mut reached.far, aggregate, operand)?;
    let terms = reached.order(&aggregate.order_by)?;
    if !aggregate.path.distinct {
        return Ok(format!("coalesce({}, '[]')", array_of(&text, &terms, &reached.from(), aggregate.limit)));
    }
    // What is shown is told apart letter by letter, and keeps its first place.
    let order = order_by(&terms, &text);
    let rows = format!("select {text} as v, row_number() over ({order}) as n {}", reached.from());
    let limit = limit(aggregate.limit);
    let order_values = if limit.is_empty() { "" } else { " order by 2" };
    Ok(format!(
        "coalesce((select '[' || string_agg(r.v, ',' order by r.n) || ']' from (\
         select q.v collate \"C\" as v, min(q.n) as n from ({rows}) as q group by 1{order_values}{limit}) as r), '[]')"
    ))
}

/// The first far row's.
fn value<'a>(mut reached: Reached<'a>, aggregate: &'a Aggregate, operand: &'a Operand) -> Result<String> {
    let text = shown(&mut reached.far, aggregate, operand)?;
    let order = if reached.is_single(&aggregate.path) {
        String::new()
    } else {
        format!(" {}", order_by(&reached.order(&aggregate.order_by)?, &text))
    };
    Ok(format!("coalesce((select {text} {}{order} limit 1), 'null')", reached.from()))
}

/// The operand as JSON text, `null` for NULL.
fn shown<'a>(far: &mut Scope<'a>, aggregate: &'a Aggregate, operand: &'a Operand) -> Result<String> {
    let shown = match operand {
        Operand::Column(name) => Shown::column(far.column(name)?, &aggregate.field_type, &aggregate.transforms),
        Operand::Sql(sql) => {
            let value = ValueType { field_type: aggregate.field_type.clone(), array: false };
            Shown::sql(far.fragment(sql), &value, &aggregate.transforms)
        }
    };
    Ok(shown.or(None))
}

/// The operand as it is, and its column if it is one.
fn argument<'a>(far: &mut Scope<'a>, operand: &'a Operand) -> Result<(String, Option<Column<'a>>)> {
    match operand {
        Operand::Column(name) => {
            let column = far.column(name)?;
            Ok((column.sql.clone(), Some(column)))
        }
        Operand::Sql(sql) => Ok((far.fragment(sql), None)),
    }
}
