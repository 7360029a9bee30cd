//! Decimals are kept as texts, digit for digit; here they are ordered and added as numbers, with all their digits.
//!
//! The store spells them in one way: no plus, no zeros in front, no exponent.

use super::path::Term;

/// What orders decimals: first by sign and length before the point, then by the digits.
pub(super) fn terms(sql: &str, descending: bool) -> Vec<Term> {
    let sign = sign(sql);
    let digits = format!("rtrim({}, '0')", with_point(sql));
    let by = |sql: String, descending: bool| Term { sql, descending };
    vec![
        by(format!("{sign} * instr({}, '.')", with_point(sql)), descending),
        by(format!("case when {sign} > 0 then {digits} end"), descending),
        by(format!("case when {sign} < 0 then {digits} end"), !descending),
    ]
}

fn sign(sql: &str) -> String {
    format!("(case when trim({sql}, '-0.') = '' then 0 when {sql} like '-%' then -1 when {sql} is not null then 1 end)")
}

/// Without its sign, and with a point.
fn with_point(sql: &str) -> String {
    format!("(ltrim({sql}, '-') || case when instr({sql}, '.') > 0 then '' else '.' end)")
}

/// Digits that a sum takes on either side of the point.
const DIGITS: usize = 24;
/// A sum is four numbers of twelve digits each: of nine million rows none of them is too great.
const LIMB: &str = "1000000000000";

/// The exact sum as JSON text, of none `null`: `column` is the decimal's name in the rows that `rows` selects.
///
/// It has as many digits behind the point as the one with the most. A decimal with more than 24 digits on a side fails the
/// statement.
pub(super) fn sum(column: &str, rows: &str) -> String {
    let zeros = "0".repeat(DIGITS);
    let point = format!("instr({}, '.')", with_point("x"));
    // What is no path fails, and is told in the error. It looks at the row, lest it be worked out before any.
    let fail = |why: &str| format!("json_extract('{}', '{why}' || substr(x, 1, 0))", "{}");
    let (too_long, no_number) =
        (fail("more than 24 digits on a side of the point, in a sum"), fail("what is no decimal number, in a sum"));
    let parts = format!(
        "select {} as s, substr({text}, 1, {point} - 1) as w, substr({text}, {point} + 1) as f, x from (\
         select {column} as x {rows}) where x is not null",
        sign("x"),
        text = with_point("x"),
    );
    let limbs = format!(
        "select s, length(f) as scale, \
         case when x glob '*[^-.0-9]*' then {no_number} \
         when length(w) > {DIGITS} or length(f) > {DIGITS} then {too_long} \
         else substr('{zeros}' || w, -{DIGITS}) || substr(f || '{zeros}', 1, {DIGITS}) end as d from ({parts})"
    );
    let limb = |at: usize| format!("sum(s * cast(substr(d, {}, 12) as integer))", at * 12 + 1);
    let sums = format!(
        "select max(scale) as scale, {} as a, {} as b, {} as c, {} as d, 1 as sg from ({limbs})",
        limb(0),
        limb(1),
        limb(2),
        limb(3)
    );
    let carried = carry(&sums);
    // Of a negative sum the digits are those of its opposite.
    let turned = format!(
        "select scale, sg * a0 as a, sg * b0 as b, sg * c0 as c, sg * d0 as d, sg from (\
         select scale, a0, b0, c0, d0, case when a < 0 then -1 else 1 end as sg from ({carried}))"
    );
    let digits = format!(
        "select sg, scale, printf('%d%012d', a, b) as w, printf('%012d%012d', c, d) as f from ({})",
        carry(&turned)
    );
    format!(
        "(select case when scale is null then 'null' else case when sg < 0 then '-' else '' end || \
         case when ltrim(w, '0') = '' then '0' else ltrim(w, '0') end || \
         case when scale > 0 then '.' || substr(f, 1, scale) else '' end end from ({digits}))"
    )
}

/// Brings all but the highest number into 0 to 10^12, and keeps what they were.
fn carry(numbers: &str) -> String {
    let rest = |name: &str| format!("((({name} % {LIMB}) + {LIMB}) % {LIMB})");
    let over = |name: &str| format!("(({name} - {}) / {LIMB})", rest(name));
    let first = format!(
        "select *, a as a0, b as b0, c as c0, d as d0, c + {} as c1, {} as d1 from ({numbers})",
        over("d"),
        rest("d")
    );
    let second = format!("select *, b + {} as b1, {} as c2 from ({first})", over("c1"), rest("c1"));
    format!(
        "select scale, sg, a0, b0, c0, d0, a0 + {} as a, {} as b, c2 as c, d1 as d from ({second})",
        over("b1"),
        rest("b1")
    )
}
