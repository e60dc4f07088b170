//! The same operations as the host launches them: through `zynfer::hip`, always in the emulator's library and with `HW=1` on the card
//! as well, by the same code. Buffers stand between guard words: a card reports no stray write.

use std::sync::{Mutex, OnceLock, PoisonError};

use bytemuck::{NoUninit, Pod};
use zynfer::gpu::code_object;
use zynfer::hip::kernels::Kernels;
use zynfer::hip::{Buffer, Context, Search, Selector, Span, Stream, choose, devices};

/// Bytes before and behind each buffer that nobody may change; keeps the alignment of an allocation.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xc3;
/// What an output holds before the launch: a NaN in every dtype, so that an element nobody wrote shows.
const UNWRITTEN: u8 = 0xff;

/// A card or the emulator, with the kernels loaded.
pub struct Device {
    /// For messages.
    pub name: String,
    pub stream: Stream,
    pub kernels: Kernels,
}

/// A buffer between guard words.
pub struct Guarded {
    whole: Span,
    pub span: Span,
    _buffer: Buffer,
}

fn open(search: &Search) -> Device {
    let library = search.open().unwrap_or_else(|error| panic!("{error}"));
    let list = devices(&library).unwrap_or_else(|error| panic!("{error}"));
    let choice = choose(&list, &Selector::Auto, code_object::ARCHITECTURES).unwrap_or_else(|error| panic!("{error}"));
    let name = format!("{} ({})", choice.device.name, library.path().display());
    let context = Context::new(&library, choice.device).unwrap_or_else(|error| panic!("{name}: {error}"));
    let kernels = Kernels::load(&context, code_object::IMAGE).unwrap_or_else(|error| panic!("{name}: {error}"));
    let stream = Stream::new(&context).unwrap_or_else(|error| panic!("{name}: {error}"));
    Device { name, stream, kernels }
}

/// Calls `check` for the emulator, and with `HW=1` for the card, one at a time.
#[track_caller]
pub fn each(check: impl Fn(&Device)) {
    static DEVICES: OnceLock<Vec<Mutex<Device>>> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| {
        let mut searches = vec![Search::emulator()];
        if zynfer_tests::card_too() {
            searches.push(Search::amd(None));
        }
        searches.iter().map(|search| Mutex::new(open(search))).collect()
    });
    for device in devices {
        // A failed check poisons the lock and nothing else: buffers are its own.
        check(&device.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Device {
    /// A buffer that holds `data`.
    pub fn buffer<T: NoUninit>(&self, data: &[T]) -> Guarded {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let buffer =
            Buffer::new(self.stream.context(), bytes.len() + 2 * GUARD_BYTES).expect("room for a test's buffer");
        let whole = buffer.span();
        let guard = [GUARD; GUARD_BYTES];
        self.stream.write(&whole, &[&guard, bytes, &guard].concat()).expect("a copy into a live buffer");
        let span = whole.part(GUARD_BYTES, bytes.len()).expect("inside");
        Guarded { whole, span, _buffer: buffer }
    }

    /// A buffer for `count` elements, none of them written.
    pub fn output<T>(&self, count: usize) -> Guarded {
        self.buffer(&vec![UNWRITTEN; count * size_of::<T>()])
    }

    /// What the buffer holds, once everything queued is done and its guard words are found whole.
    #[track_caller]
    pub fn read<T: Pod>(&self, buffer: &Guarded) -> Vec<T> {
        let mut bytes = vec![0; buffer.whole.bytes()];
        self.stream.read(&buffer.whole, &mut bytes).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let (before, rest) = bytes.split_at(GUARD_BYTES);
        let (content, behind) = rest.split_at(buffer.span.bytes());
        assert!(before.iter().all(|&byte| byte == GUARD), "{}: a write before the buffer", self.name);
        assert!(behind.iter().all(|&byte| byte == GUARD), "{}: a write behind the buffer", self.name);
        bytemuck::pod_collect_to_vec(content)
    }
}
