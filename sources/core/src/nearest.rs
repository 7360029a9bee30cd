/// The known name that is most like `name`, if one is like it enough to be what was meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (name.chars().count() / 3).clamp(1, 4);
    let distances = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    distances.filter(|(distance, _)| *distance <= bound).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How many letters must be added, dropped, changed or swapped with their neighbour; capital letters are as good as small.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let changed = last[j] + usize::from(left != right);
            let mut best = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *left == b[j - 1] && a[i - 1] == *right {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let known = ["order_by", "limit", "fields", "has_many"];
        assert_eq!(nearest("oder_by", known), Some("order_by"));
        assert_eq!(nearest("lmiit", known), Some("limit"));
        assert_eq!(nearest("Fields", known), Some("fields"));
        assert_eq!(nearest("hasmany", known), Some("has_many"));
        assert_eq!(nearest("mapping", known), None);
        assert_eq!(nearest("", known), None);
    }
}
