//! Stand-ins for libamdhip64, compiled from C on the spot: any version, any list of cards, any symbol left out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use zynfer::hip::ffi::REQUIRED;

/// One card a stub reports.
#[derive(Clone)]
pub struct Card {
    pub name: &'static str,
    pub arch: &'static str,
    pub gib_sixteenths: u64,
    pub integrated: bool,
    pub uuid: Option<&'static str>,
}

/// What a stub is like.
#[derive(Clone)]
pub struct Stub {
    /// What `hipRuntimeGetVersion` says.
    pub version: u32,
    /// The symbol it lacks.
    pub without: Option<&'static str>,
    /// Whether it has `hipGetDevicePropertiesR0600`.
    pub versioned_properties: bool,
    /// Status of `hipInit` and `hipGetDeviceCount`.
    pub init_status: i32,
    /// Its cards.
    pub cards: Vec<Card>,
}

impl Default for Stub {
    fn default() -> Self {
        Self { version: 70_000_000, without: None, versioned_properties: true, init_status: 0, cards: Vec::new() }
    }
}

impl Stub {
    /// Compiles it as `folder/name`.
    pub fn build(&self, folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder).expect("folder of a stub");
        let source = folder.join(format!("{name}.c"));
        std::fs::write(&source, self.source()).expect("source of a stub");
        let library = folder.join(name);
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O0", "-w", "-o"])
            .arg(&library)
            .arg(&source)
            .output()
            .expect("`cc` is there: rustc links with it too");
        assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
        library
    }

    fn source(&self) -> String {
        let mut c = String::from("#include <string.h>\n#include <stddef.h>\n");
        let count = self.cards.len();
        let list = |f: &dyn Fn(&Card) -> String| {
            let items: Vec<String> = self.cards.iter().map(f).chain(["0".into()]).collect();
            items.join(",")
        };
        let quoted = |text: &str| format!("\"{text}\"");
        let _ = writeln!(c, "static const char *NAME[] = {{{}}};", list(&|card| quoted(card.name)));
        let _ = writeln!(c, "static const char *ARCH[] = {{{}}};", list(&|card| quoted(card.arch)));
        let _ = writeln!(c, "static const char *UUID[] = {{{}}};", list(&|card| card.uuid.map_or("0".into(), quoted)));
        let _ = writeln!(c, "static size_t MEMORY[] = {{{}}};", list(&|card| (card.gib_sixteenths << 26).to_string()));
        let _ = writeln!(c, "static int SHARED[] = {{{}}};", list(&|card| u8::from(card.integrated).to_string()));
        let status = self.init_status;
        let mut bodies = vec![
            ("hipInit", "int hipInit(unsigned f)", format!("return {status};")),
            ("hipRuntimeGetVersion", "int hipRuntimeGetVersion(int *v)", format!("*v = {}; return 0;", self.version)),
            ("hipGetErrorName", "const char *hipGetErrorName(int s)", "return \"stubError\";".into()),
            ("hipGetDeviceCount", "int hipGetDeviceCount(int *n)", format!("*n = {count}; return {status};")),
            (
                "hipDeviceGetName",
                "int hipDeviceGetName(char *out, int len, int d)",
                "strncpy(out, NAME[d], len); return 0;".into(),
            ),
            ("hipDeviceTotalMem", "int hipDeviceTotalMem(size_t *n, int d)", "*n = MEMORY[d]; return 0;".into()),
            (
                "hipDeviceGetAttribute",
                "int hipDeviceGetAttribute(int *v, int a, int d)",
                "*v = a == 16 ? SHARED[d] : a == 63 ? 32 : a == 67 ? d + 3 : 0; return 0;".into(),
            ),
        ];
        for name in REQUIRED {
            if !bodies.iter().any(|(known, ..)| known == name) {
                bodies.push((name, "", "return 0;".into()));
            }
        }
        for (name, signature, body) in bodies {
            if Some(name) == self.without {
                continue;
            }
            let signature = if signature.is_empty() { format!("int {name}()") } else { signature.into() };
            let _ = writeln!(c, "{signature} {{ {body} }}");
        }
        // Both properties calls, each with `gcnArchName` where its own header has it and a wrong answer where the other one has it.
        let properties = |name: &str, here: usize, elsewhere: usize| {
            format!(
                "int {name}(char *p, int d) {{ strcpy(p + {elsewhere}, \"gfx000\"); strcpy(p + {here}, ARCH[d]); return 0; }}"
            )
        };
        let _ = writeln!(c, "{}", properties("hipGetDeviceProperties", 396, 1160));
        if self.versioned_properties {
            let _ = writeln!(c, "{}", properties("hipGetDevicePropertiesR0600", 1160, 396));
        }
        let _ = writeln!(
            c,
            "int hipDeviceGetUuid(char *u, int d) {{ if (!UUID[d]) return 1; memcpy(u, UUID[d], 16); return 0; }}"
        );
        c
    }
}
