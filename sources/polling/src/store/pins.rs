//! Which index each replicate column of a stream has, for ever. Pure.

use crate::model::ColumnAssignment;

/// The assignments once a source names these columns.
///
/// Kept by name; a new name gets one past the highest ever used; one that is gone is retired; one that is back is active again.
///
/// # Errors
/// When a name is given twice; and when names are gone while new ones come: that may be a renaming, and would then cut a column
/// in two. The sentence names both.
pub(crate) fn assign(held: &[ColumnAssignment], names: &[String]) -> Result<Vec<ColumnAssignment>, String> {
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(format!("a replicate column is named twice (name={})", twice.1));
    }
    let gone: Vec<&str> =
        held.iter().filter(|pin| pin.active && !names.contains(&pin.name)).map(|pin| pin.name.as_str()).collect();
    let new: Vec<&str> =
        names.iter().filter(|name| held.iter().all(|pin| pin.name != **name)).map(String::as_str).collect();
    if !gone.is_empty() && !new.is_empty() {
        return Err(format!(
            "replicate columns are gone while new ones come, which may be a renaming: do it in two steps (gone={}, new={})",
            gone.join(","),
            new.join(",")
        ));
    }
    let next = held.iter().map(|pin| pin.index + 1).max().unwrap_or(0);
    let mut pins: Vec<ColumnAssignment> =
        held.iter().map(|pin| ColumnAssignment { active: names.contains(&pin.name), ..pin.clone() }).collect();
    let appended = (next..).zip(new);
    pins.extend(appended.map(|(index, name)| ColumnAssignment { name: name.to_owned(), index, active: true }));
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn shown(pins: &[ColumnAssignment]) -> Vec<(&str, u32, bool)> {
        pins.iter().map(|pin| (pin.name.as_str(), pin.index, pin.active)).collect()
    }

    #[test]
    fn an_index_is_kept_by_name_retired_and_never_given_to_another() {
        let first = assign(&[], &names(&["a", "b"])).unwrap();
        assert_eq!(shown(&first), [("a", 0, true), ("b", 1, true)]);
        let without = assign(&first, &names(&["a"])).unwrap();
        assert_eq!(shown(&without), [("a", 0, true), ("b", 1, false)]);
        let with_new = assign(&without, &names(&["c", "a"])).unwrap();
        assert_eq!(shown(&with_new), [("a", 0, true), ("b", 1, false), ("c", 2, true)]);
        let back = assign(&with_new, &names(&["a", "b", "c"])).unwrap();
        assert_eq!(shown(&back), [("a", 0, true), ("b", 1, true), ("c", 2, true)]);
    }

    #[test]
    fn removing_and_adding_in_one_step_is_refused_naming_both() {
        let held = assign(&[], &names(&["a", "b"])).unwrap();
        let why = assign(&held, &names(&["a", "c"])).unwrap_err();
        assert!(why.contains("gone=b, new=c"), "{why}");
        assert!(assign(&held, &names(&["a", "a"])).unwrap_err().contains("name=a"));
    }
}
