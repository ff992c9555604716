//! "Did you mean": the name nearest to one that does not exist.

/// The candidate nearest to `name` without regard to case, if one is near enough to be a slip of the fingers.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(MAX_LENGTH).collect();
    let tolerance = (wanted.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let found: Vec<char> = candidate.to_lowercase().chars().take(MAX_LENGTH).collect();
            if found.len().abs_diff(wanted.len()) > tolerance {
                return None;
            }
            let distance = distance(&wanted, &found);
            (distance <= tolerance).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Names are compared up to this many characters.
const MAX_LENGTH: usize = 64;

/// Edit distance with transpositions of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut table = vec![0; (a.len() + 1) * width];
    for (column, cell) in table.iter_mut().take(width).enumerate() {
        *cell = column;
    }
    for row in 1..=a.len() {
        table[row * width] = row;
        for column in 1..=b.len() {
            let cost = usize::from(a[row - 1] != b[column - 1]);
            let mut least = (table[(row - 1) * width + column] + 1)
                .min(table[row * width + column - 1] + 1)
                .min(table[(row - 1) * width + column - 1] + cost);
            if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                least = least.min(table[(row - 2) * width + column - 2] + 1);
            }
            table[row * width + column] = least;
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_a_swapped_letter() {
        assert_eq!(
            nearest("cutsomers", ["orders", "customers"]),
            Some("customers")
        );
    }

    #[test]
    fn finds_nothing_when_nothing_is_near() {
        assert_eq!(nearest("price", ["customers", "orders"]), None);
    }

    #[test]
    fn ignores_case() {
        assert_eq!(nearest("NAME", ["Name"]), Some("Name"));
    }
}
