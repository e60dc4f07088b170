//! One kernel of `tests/fixtures/faults`: what its head says, and running it. The head's lines `//! word: value` are `class`, and where
//! they differ from 1, 32, 0 and 0: `grid`, `block`, `lds`, `free_b`.

use crate::assemble::{assemble, folder};
use emulator::{CodeObject, Launch, LaunchError, LoadedModule, Memory, Options, Stats, launch};
use std::sync::OnceLock;

/// Bytes of each of the two buffers.
const BUFFER: u64 = 1024;

pub struct Fault {
    pub name: String,
    pub class: String,
    grid: u32,
    block: u32,
    lds: u32,
    free_b: bool,
    objects: [OnceLock<Vec<u8>>; 2],
}

/// All of them by name.
pub fn all() -> Vec<Fault> {
    let mut faults: Vec<Fault> = std::fs::read_dir(folder())
        .expect("the folder of faults")
        .filter_map(|entry| {
            let path = entry.expect("an entry").path();
            (path.extension()? == "s").then(|| {
                let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
                Fault::read(name, &std::fs::read_to_string(&path).expect("its text"))
            })
        })
        .collect();
    faults.sort_by(|a, b| a.name.cmp(&b.name));
    faults
}

impl Fault {
    fn read(name: String, text: &str) -> Fault {
        let value = |word: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix("//! ")?.split_once(": "));
            lines.find(|(key, _)| *key == word).map(|(_, value)| value.trim().to_string())
        };
        let number = |word: &str, default: u32| {
            value(word).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}: {word}: {e}")))
        };
        let (grid, block, lds, free_b) =
            (number("grid", 1), number("block", 32), number("lds", 0), number("free_b", 0) != 0);
        let class = value("class").unwrap_or_else(|| panic!("{name}.s names no class"));
        Fault { class, grid, block, lds, free_b, objects: Default::default(), name }
    }

    /// Runs it on two buffers of which the host has written the first.
    pub fn run(&self, fixed: bool, options: Options) -> Result<Stats, LaunchError> {
        let bytes = self.objects[fixed as usize].get_or_init(|| assemble(&self.name, fixed));
        let mut memory = Memory::new(1 << 20);
        memory.follow_writes();
        let module = LoadedModule::load(CodeObject::parse(bytes).expect("a code object"), &mut memory).expect("room");
        let [a, b] = [0; 2].map(|_| memory.alloc(BUFFER).expect("room"));
        memory.fill(a, BUFFER, 0).expect("the whole buffer");
        if self.free_b {
            memory.free(b).expect("allocated");
        }
        let kernarg: Vec<u8> = [a, b].into_iter().flat_map(u64::to_le_bytes).collect();
        let options = Options { wave_limit: 100_000, idle_limit: 1000, ..options };
        let (grid, block) = ([self.grid, 1, 1], [self.block, 1, 1]);
        launch(
            &memory,
            &module,
            &Launch { kernel: "k", grid, block, dynamic_lds: self.lds, kernarg: &kernarg, options },
        )
    }
}
