//! A decoder whose matrices are stored in several schemes: what would let its kernels leave the weights is refused before a table is written.

use device_ops::decode::Shape;
use zynfer::gpu::code_object::IMAGE;
use zynfer::hip::decode::{DecodeModel, DecodePlan, Decoder, Heads, LayerPlaces, Matrices, Place, WeightPlaces};
use zynfer::hip::kernels::Kernels;
use zynfer::hip::{Buffer, Context, Search, Stream, devices};
use zynfer::quant::Scheme;

/// Two layers of H 256, all matrices where bf16 of the largest fits, one after the other.
const SHAPE: Shape = Shape { hidden: 256, heads: 4, kv_heads: 2, head_dim: 64, intermediate: 256, vocab: 256 };
const MATRIX: usize = 256 * 256 * 2;
/// Vectors first: two layers of four, and the last norm, 512 bytes each.
const VECTORS: usize = 9 * 512;
const WEIGHTS: usize = VECTORS + 16 * MATRIX;

fn places() -> WeightPlaces {
    let mut next = VECTORS;
    let mut place = |scheme| {
        let offset = next;
        next += MATRIX;
        Place { offset, scheme }
    };
    let (most, more) = (Scheme::Int4MinK(32), Scheme::Int8K(16));
    let mut layer = || LayerPlaces {
        qkv: [place(most), place(Scheme::Bf16), place(more)],
        o: place(most),
        gated: [place(Scheme::Fp8), place(Scheme::Int8Row)],
        down: place(more),
    };
    let layers = vec![layer(), layer()];
    let matrices = Matrices::Each { embed: place(more), layers, head: place(Scheme::Int4(32)) };
    let heads = Heads::Normed { q: 512, k: 1024 };
    WeightPlaces { matrices, layer_stride: 2048, input_norm: 0, heads, post_norm: 1536, norm: 4096 }
}

#[test]
fn places_of_a_mixture_that_leave_the_weights_are_refused() {
    let library = Search::emulator().open().expect("cargo builds the emulator's library with this test");
    let context = Context::new(&library, devices(&library).expect("it lists").remove(0)).expect("it opens");
    let kernels = Kernels::load(&context, IMAGE).unwrap_or_else(|error| panic!("{error}"));
    let stream = Stream::new(&context).expect("a stream");
    let span = |bytes: usize| Buffer::new(&context, bytes).expect("small").span();
    let make = |places: WeightPlaces, plan| {
        let model = DecodeModel {
            shape: SHAPE,
            layers: 2,
            eps: 1e-6,
            capacity: 64,
            weights: span(WEIGHTS),
            places,
            cache: span(2 * 2 * 2 * 64 * 64 * 2),
            rope: span(64 * 64 * 4),
            logits: span(256 * 4),
        };
        Decoder::new(&stream, &kernels, model, plan, Some(2)).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(make(places(), DecodePlan::Persistent), Ok(()));
    let changed = |change: &dyn Fn(&mut Place, &mut Vec<LayerPlaces>, &mut Place)| {
        let mut places = places();
        let Matrices::Each { embed, layers, head } = &mut places.matrices else { unreachable!() };
        change(embed, layers, head);
        make(places, DecodePlan::Persistent).expect_err("it was taken")
    };
    let end = format!("the weights have {WEIGHTS} bytes");
    // The last matrix ends with the weights: a unit further on, or as bf16 a byte of it, does not.
    let text = changed(&|_, _, head| (head.offset, head.scheme) = (WEIGHTS - MATRIX + 256, Scheme::Bf16));
    assert!(text.contains("lm_head") && text.contains(&(WEIGHTS + 256).to_string()) && text.contains(&end), "{text}");
    let text = changed(&|embed, _, _| embed.offset += 128);
    assert!(text.contains("embedding at") && text.contains(&end), "{text}");
    let text = changed(&|_, layers, _| layers[1].down.offset = WEIGHTS);
    assert!(text.contains("down_proj") && text.contains(&end), "{text}");
    let text = changed(&|_, layers, _| layers[0].qkv[2].offset = usize::MAX / 512 * 256);
    assert!(text.contains("q, k, v") && text.contains(&end), "{text}");
    let text = changed(&|_, layers, _| layers[0].gated[1].scheme = Scheme::Int4MinK(16));
    assert!(text.contains("int4mk:16: there are no groups of this size"), "{text}");
    let text = changed(&|_, layers, _| layers.truncate(1));
    assert!(text.contains("matrices of 1 layers, the model has 2"), "{text}");
    for plan in [DecodePlan::Fused, DecodePlan::Graph] {
        let text = make(places(), plan).expect_err("it was taken");
        assert!(text.contains("fused and graph read bf16"), "{text}");
    }
    // A scheme without kernels of its own is one of a mixture, or it is not read.
    let alone = Matrices::Alike {
        scheme: Scheme::Int8K(16),
        embed: VECTORS,
        qkv: VECTORS,
        o: VECTORS,
        gate: VECTORS,
        up: VECTORS,
        down: VECTORS,
        head: VECTORS,
    };
    let text = make(WeightPlaces { matrices: alone, ..places() }, DecodePlan::Persistent).expect_err("it was taken");
    assert!(text.contains("no kernels for int8k:16 alone"), "{text}");
}
