//! Every instruction of the tables has at least one `.ins` row that names it, whatever the row's form. What a row says is judged
//! elsewhere ([`crate::ins`]).

use crate::ins;
use emulator::isa::{self, Row};
use std::collections::BTreeSet;

/// Tables whose every row is asked for. A format is added here once its instructions have rows.
const TABLES: &[(&str, &[&[Row]])] =
    &[("vector", &[isa::vop1::ROWS, isa::vop2::ROWS, isa::vop3::ROWS, isa::vopc::ROWS, isa::vopd::ROWS])];

/// Mnemonics that rows name, without the endings of their forms; of a pair both.
fn named(rows: &[ins::Row]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for half in rows.iter().flat_map(|row| row.text.split(" :: ")) {
        let mut name = half.split_whitespace().next().unwrap_or_default();
        for ending in ["_dpp", "_e32", "_e64"] {
            name = name.strip_suffix(ending).unwrap_or(name);
        }
        out.insert(name.to_string());
    }
    out
}

#[test]
fn every_instruction_has_a_row() {
    let named = named(&crate::all_rows());
    let mut missing = Vec::new();
    for (family, tables) in TABLES {
        let rows = tables.iter().flat_map(|table| table.iter());
        missing.extend(rows.filter(|row| !named.contains(row.name)).map(|row| format!("{} ({family})", row.name)));
    }
    assert!(missing.is_empty(), "{} instructions without an .ins row: {}", missing.len(), missing.join(", "));
}
