//! Rows of earlier versions, whose locks had other names.

use serde::{Deserialize, Deserializer};

use super::{REAL, Row};
use crate::locks::renamed::{Was, renamed};

/// Reads the rows of a document, with the names that their locks have today.
pub fn with_names_of_today<'de, D: Deserializer<'de>>(rows: D) -> Result<Vec<Row>, D::Error> {
    let mut rows = Vec::<Row>::deserialize(rows)?;
    for row in &mut rows {
        // What was simulated beside a real run was the lock that had the name there.
        let is_of_real = row.machine.is_none() || row.is_beside(REAL);
        let was = if is_of_real { Was::Real } else { Was::Simulated };
        if let Some(now) = renamed(&row.lock, was, row.workload.kind(row.case, &row.range)) {
            row.lock = now.to_owned();
        }
    }
    Ok(rows)
}
