//! The search for circles of threads that wait for each other.

use std::vec::Vec;

/// Circles in a graph that share no node: every node that is in a circle can reach one that is
/// returned.
pub(crate) fn circles(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut seen = std::vec![false; next.len()];
    for start in 0..next.len() {
        if core::mem::replace(&mut seen[start], true) {
            continue;
        }
        // The path to where the search is, with how many ways from each node it has tried.
        let mut path = std::vec![(start, 0)];
        while let Some((node, tried)) = path.last_mut() {
            let Some(&to) = next[*node].get(*tried) else {
                path.pop();
                continue;
            };
            *tried += 1;
            if let Some(place) = path.iter().position(|&(node, _)| node == to) {
                found.push(path.drain(place..).map(|(node, _)| node).collect());
            } else if !core::mem::replace(&mut seen[to], true) {
                path.push((to, 0));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_circle_is_found_once() {
        let none: Vec<Vec<usize>> = Vec::new();
        assert_eq!(circles(&[vec![1], vec![2], vec![]]), none);
        assert_eq!(circles(&[vec![0]]), [[0]]);
        assert_eq!(circles(&[vec![1], vec![2], vec![3], vec![1]]), [[1, 2, 3]]);
        assert_eq!(circles(&[vec![1], vec![0], vec![0, 3], vec![2]]), [[0, 1], [2, 3]]);
        // A way that ends nowhere, or in another circle, comes before one that does not.
        assert_eq!(circles(&[vec![1, 2], vec![], vec![0]]), [[0, 2]]);
        assert_eq!(circles(&[vec![1, 3], vec![2], vec![1], vec![0]]), [[1, 2], [0, 3]]);
    }
}
