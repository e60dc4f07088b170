//! Source lines of instructions, from the DWARF line tables of a code object that has them. The sections are kept as bytes and read
//! when a report needs a line, which is seldom. It knows nothing of variables, inlining or frames.

use gimli::{AttributeValue, EndianSlice, LineProgramHeader, LittleEndian, Unit};
use std::fmt;

/// Bytes of a section.
type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// Path as the compiler wrote it.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The debug sections of a code object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    sections: Vec<(String, Vec<u8>)>,
}

impl Lines {
    /// From named sections; those that line tables do not need may be left out.
    pub fn new(sections: Vec<(String, Vec<u8>)>) -> Lines {
        Lines { sections }
    }

    /// Whether a section of this name is worth keeping.
    pub fn wants(section: &str) -> bool {
        matches!(
            section,
            ".debug_abbrev"
                | ".debug_addr"
                | ".debug_info"
                | ".debug_line"
                | ".debug_line_str"
                | ".debug_str"
                | ".debug_str_offsets"
        )
    }

    /// The line of the instruction at `address`, relative to the image as the ELF file has it. Damaged tables have no lines.
    pub fn find(&self, address: u64) -> Option<SourceLine> {
        if self.sections.is_empty() {
            return None;
        }
        let section = |id: gimli::SectionId| -> Result<Bytes<'_>, gimli::Error> {
            let found = self.sections.iter().find(|(name, _)| name == id.name());
            Ok(EndianSlice::new(found.map_or(&[], |(_, bytes)| bytes), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).ok()?;
        let mut units = dwarf.units();
        while let Some(header) = units.next().ok()? {
            let Ok(unit) = dwarf.unit(header) else { continue };
            if let Some(line) = in_unit(&dwarf, &unit, address) {
                return Some(line);
            }
        }
        None
    }
}

/// A row holds from its address to that of the next one; line 0 says that the instruction belongs to none.
fn in_unit(dwarf: &gimli::Dwarf<Bytes<'_>>, unit: &Unit<Bytes<'_>>, address: u64) -> Option<SourceLine> {
    let mut rows = unit.line_program.clone()?.rows();
    let mut before: Option<(u64, u64, u64)> = None;
    while let Some((header, row)) = rows.next_row().ok()? {
        if let Some((start, file, line)) = before
            && (start..row.address()).contains(&address)
        {
            return Some(SourceLine { file: path(dwarf, unit, header, file)?, line });
        }
        let line = row.line().map_or(0, |line| line.get());
        before = (!row.end_sequence() && line > 0).then(|| (row.address(), row.file_index(), line));
    }
    None
}

/// Directory and name of a file of the table.
fn path(
    dwarf: &gimli::Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    header: &LineProgramHeader<Bytes<'_>>,
    index: u64,
) -> Option<String> {
    let words = |value: AttributeValue<Bytes<'_>>| {
        dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy().into_owned())
    };
    let file = header.file(index)?;
    let name = words(file.path_name())?;
    let directory = file.directory(header).and_then(words).unwrap_or_default();
    if name.starts_with('/') || directory.is_empty() {
        return Some(name);
    }
    Some(format!("{directory}/{name}"))
}
