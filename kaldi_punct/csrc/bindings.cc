// Python's view of the core: kaldi_punct._core. The only file that knows Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "archive.h"
#include "errors.h"
#include "lattice_aligner.h"
#include "lattice_costs.h"
#include "lattice_forms.h"
#include "lattice_shape.h"
#include "lattice_writer.h"
#include "lexicon_aligner.h"
#include "linear_lattice.h"
#include "mbr.h"
#include "oracle.h"
#include "paths.h"
#include "phone_aligner.h"
#include "posteriors.h"
#include "word_aligner.h"

namespace py = pybind11;
using namespace kaldi_punct;  // NOLINT: this file is the core's face

namespace {

using LatticePtr = std::shared_ptr<Lattice>;
using ConstLatticePtr = std::shared_ptr<const Lattice>;

// pybind11 holds non-const pointers; nothing here changes a lattice after it was read.
LatticePtr to_python(ConstLatticePtr lattice) { return std::const_pointer_cast<Lattice>(std::move(lattice)); }

LatticePtr parse(const py::bytes& data, const std::string& origin) {
  const std::string_view view = data;
  py::gil_scoped_release release;
  return std::make_shared<Lattice>(parse_value(view.data(), view.size(), origin));
}

py::object next_entry(ArchiveReader& reader) {
  std::optional<ArchiveEntry> entry;
  {
    py::gil_scoped_release release;
    entry = reader.next();
  }
  if (!entry) return py::none();
  const py::bytes key(entry->key);
  if (entry->lattice) return py::make_tuple(key, to_python(entry->lattice));
  return py::make_tuple(key, entry->error);
}

void bind_errors() {
  py::register_local_exception_translator([](std::exception_ptr p) {
    const auto raise = [](const char* name, const char* text) {
      const py::object type = py::module_::import("kaldi_punct.errors").attr(name);
      PyErr_SetString(type.ptr(), text);
    };
    try {
      if (p) std::rethrow_exception(p);
    } catch (const LatticeError& e) {
      raise("LatticeError", e.what());
    } catch (const FormatError& e) {
      raise("FormatError", e.what());
    }
  });
}

void bind_reading(py::module_& m) {
  py::class_<Lattice, LatticePtr>(m, "Lattice")
      .def_property_readonly("n_states", [](const Lattice& lattice) { return lattice.states.size(); })
      .def_property_readonly("n_arcs", [](const Lattice& lattice) { return lattice.arcs.size(); })
      .def_property_readonly("n_frames", &Lattice::n_frames)
      .def_property_readonly("origin", [](const Lattice& lattice) { return lattice.origin; });
  m.def("parse", &parse, py::arg("data"), py::arg("origin"));
  py::class_<ArchiveReader>(m, "ArchiveReader")
      .def(py::init<std::string, bool>(), py::arg("name"), py::arg("has_keys"))
      .def("feed",
           [](ArchiveReader& reader, const py::bytes& data) {
             const std::string_view view = data;
             reader.feed(view.data(), view.size());
           })
      .def("end", &ArchiveReader::end)
      .def("next", &next_entry)
      .def_property_readonly("n_pending", &ArchiveReader::n_pending);
}

void bind_writing(py::module_& m) {
  m.def(
      "write",
      [](const Lattice& lattice, bool binary, bool compact) {
        std::string out;
        {
          py::gil_scoped_release release;
          write_lattice(lattice, {binary, compact}, &out);
        }
        return py::bytes(out);
      },
      py::arg("lattice"), py::arg("binary"), py::arg("compact"));
}

void bind_paths(py::module_& m) {
  py::class_<Path>(m, "Path")
      .def_readonly("words", &Path::words)
      .def_readonly("transition_ids", &Path::tids)
      .def_readonly("graph_cost", &Path::graph_cost)
      .def_readonly("acoustic_cost", &Path::acoustic_cost)
      .def_readonly("total_cost", &Path::total_cost);
  py::class_<Scales>(m, "Scales")
      .def(py::init([](double lm, double acoustic, double word_ins_penalty) {
             return Scales{lm, acoustic, word_ins_penalty};
           }),
           py::arg("lm"), py::arg("acoustic"), py::arg("word_ins_penalty"));
  m.def("best_paths", &best_paths, py::arg("lattice"), py::arg("n"), py::arg("scales"),
        py::call_guard<py::gil_scoped_release>());
  m.def("total_cost_of_all", &total_cost_of_all, py::arg("lattice"), py::arg("scales"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_costs(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> no_gil;
  m.def("rescaled", &rescaled, py::arg("lattice"), py::arg("scales"), no_gil);
  m.def("pruned", &pruned, py::arg("lattice"), py::arg("scales"), py::arg("beam"), no_gil);
  m.def("connected", &connected, py::arg("lattice"), no_gil);
  m.def("compacted", &compacted, py::arg("lattice"), no_gil);
  m.def("spelled_out", &spelled_out, py::arg("lattice"), no_gil);
  m.def("best_lattices", &best_lattices, py::arg("lattice"), py::arg("n"), py::arg("scales"), no_gil);
  m.def("is_linear", &is_linear, py::arg("lattice"), no_gil);
}

void bind_posteriors(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> no_gil;
  py::class_<ArcPosterior>(m, "ArcPosterior")
      .def_readonly("first_frame", &ArcPosterior::first_frame)
      .def_readonly("word", &ArcPosterior::word)
      .def_readonly("posterior", &ArcPosterior::posterior)
      .def_readonly("transition_ids", &ArcPosterior::tids);
  m.def("arc_posteriors", &arc_posteriors, py::arg("lattice"), py::arg("scales"), py::arg("min_post"), no_gil);
  m.def("depth", &depth, py::arg("lattice"), no_gil);
  m.def("depth_per_frame", &depth_per_frame, py::arg("lattice"), no_gil);
}

void bind_oracle(py::module_& m) {
  py::class_<OraclePath>(m, "OraclePath")
      .def_readonly("words", &OraclePath::words)
      .def_readonly("n_correct", &OraclePath::n_correct)
      .def_readonly("n_substitutions", &OraclePath::n_substitutions)
      .def_readonly("n_insertions", &OraclePath::n_insertions)
      .def_readonly("n_deletions", &OraclePath::n_deletions);
  m.def("oracle_path", &oracle_path, py::arg("lattice"), py::arg("reference"), py::arg("wildcards"), py::arg("scales"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_alignment(py::module_& m) {
  py::class_<TransitionModel, std::shared_ptr<TransitionModel>>(m, "TransitionModel")
      .def(py::init([](const py::bytes& data, const std::string& name) {
             const std::string_view view = data;
             return std::make_shared<TransitionModel>(view.data(), view.size(), name);
           }),
           py::arg("data"), py::arg("name"))
      .def_property_readonly("n_transition_ids", &TransitionModel::n_transition_ids)
      .def("transition", [](const TransitionModel& model, int32_t tid) {
        if (!model.has(tid)) throw py::index_error("no transition-id " + std::to_string(tid));
        return py::make_tuple(model.phone(tid), model.is_final(tid), model.is_self_loop(tid));
      });
  py::class_<WordBoundary, std::shared_ptr<WordBoundary>>(m, "WordBoundary")
      .def(py::init([](const py::bytes& data, const std::string& name) {
             const std::string_view view = data;
             return std::make_shared<WordBoundary>(view.data(), view.size(), name);
           }),
           py::arg("data"), py::arg("name"));
  py::class_<Alignment>(m, "Alignment")
      .def_property_readonly("segments",
                             [](const Alignment& alignment) {
                               py::list segments;
                               for (const Segment& s : alignment.segments)
                                 segments.append(py::make_tuple(s.word, s.first_frame, s.n_frames));
                               return segments;
                             })
      .def_readonly("n_unaligned", &Alignment::n_unaligned)
      .def_readonly("problem", &Alignment::problem);
  py::class_<WordAligner, std::shared_ptr<WordAligner>>(m, "WordAligner")
      .def(py::init([](const TransitionModel& model, const WordBoundary& boundary, bool reorder) {
             return std::make_shared<WordAligner>(model, boundary, reorder);
           }),
           py::arg("model"), py::arg("boundary"), py::arg("reorder"))
      .def(
          "align", [](const WordAligner& aligner, const Path& path) { return aligner.align(path.words, path.tids); },
          py::arg("path"), py::call_guard<py::gil_scoped_release>());
}

// align() without the GIL, and what it gives as Python has it.
template <class Align>
py::tuple aligned_without_gil(const Align& align) {
  AlignedLattice aligned;
  {
    py::gil_scoped_release release;
    aligned = align();
  }
  return py::make_tuple(to_python(std::move(aligned.lattice)), std::move(aligned.problem));
}

void bind_lexicon_alignment(py::module_& m) {
  py::class_<Lexicon, std::shared_ptr<Lexicon>>(m, "Lexicon")
      .def(py::init([](const py::bytes& data, const std::string& name) {
             const std::string_view view = data;
             return std::make_shared<Lexicon>(view.data(), view.size(), name);
           }),
           py::arg("data"), py::arg("name"));
  py::class_<LexiconAligner, std::shared_ptr<LexiconAligner>>(m, "LexiconAligner")
      .def(py::init([](const TransitionModel& model, std::shared_ptr<Lexicon> lexicon, bool reorder) {
             return std::make_shared<LexiconAligner>(model, std::move(lexicon), reorder);
           }),
           py::arg("model"), py::arg("lexicon"), py::arg("reorder"))
      .def(
          "align", [](const LexiconAligner& aligner, const Path& path) { return aligner.align(path.words, path.tids); },
          py::arg("path"), py::call_guard<py::gil_scoped_release>());
}

void bind_lattice_alignment(py::module_& m) {
  py::class_<PhoneAligner, std::shared_ptr<PhoneAligner>>(m, "PhoneAligner")
      .def(py::init([](const TransitionModel& model, bool reorder) {
             return std::make_shared<PhoneAligner>(model, reorder);
           }),
           py::arg("model"), py::arg("reorder"))
      .def(
          "align", [](const PhoneAligner& aligner, const Path& path) { return aligner.align(path.tids); },
          py::arg("path"), py::call_guard<py::gil_scoped_release>());
  m.def(
      "align_words",
      [](const Lattice& lattice, const WordAligner& aligner, int32_t silence_label, int32_t partial_word_label,
         double max_expand) {
        const WordLabels labels{silence_label, partial_word_label};
        return aligned_without_gil([&] { return align_words(lattice, aligner, labels, max_expand); });
      },
      py::arg("lattice"), py::arg("aligner"), py::arg("silence_label"), py::arg("partial_word_label"),
      py::arg("max_expand"));
  m.def(
      "align_lexicon",
      [](const Lattice& lattice, const LexiconAligner& aligner, int32_t partial_word_label, double max_expand) {
        const LexiconOptions options{partial_word_label, max_expand, false};
        return aligned_without_gil([&] { return aligner.align(lattice, options); });
      },
      py::arg("lattice"), py::arg("aligner"), py::arg("partial_word_label"), py::arg("max_expand"));
  m.def(
      "align_phones",
      [](const Lattice& lattice, const PhoneAligner& aligner, bool remove_epsilons, bool replace_words) {
        const PhoneOptions options{aligner.reorder(), remove_epsilons, replace_words};
        return aligned_without_gil([&] { return align_phones(lattice, aligner.table(), options); });
      },
      py::arg("lattice"), py::arg("aligner"), py::arg("remove_epsilons"), py::arg("replace_words"));
}

py::list to_python(const std::vector<BinWord>& words) {
  py::list out;
  for (const BinWord& w : words) out.append(py::make_tuple(w.word, w.posterior, w.begin, w.end));
  return out;
}

void bind_mbr(py::module_& m) {
  py::class_<Sausage>(m, "Sausage")
      .def_property_readonly("bins",
                             [](const Sausage& sausage) {
                               py::list bins;
                               for (const Bin& bin : sausage.bins)
                                 bins.append(py::make_tuple(bin.begin, bin.end, to_python(bin.words)));
                               return bins;
                             })
      .def_property_readonly("one_best", [](const Sausage& sausage) { return to_python(sausage.one_best); })
      .def_readonly("bayes_risk", &Sausage::bayes_risk)
      .def_readonly("is_settled", &Sausage::is_settled);
  m.def(
      "decode_mbr",
      [](const Lattice& lattice, const Scales& scales, bool decode_mbr_, bool print_silence,
         const std::optional<std::vector<int32_t>>& words) {
        return decode_mbr(lattice, scales, MbrOptions{decode_mbr_, print_silence}, words);
      },
      py::arg("lattice"), py::arg("scales"), py::arg("decode_mbr"), py::arg("print_silence"), py::arg("words"),
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The native core: reads Kaldi lattices, finds their best paths and the times of their words.";
  bind_errors();
  bind_reading(m);
  bind_writing(m);
  bind_paths(m);
  bind_costs(m);
  bind_posteriors(m);
  bind_oracle(m);
  bind_alignment(m);
  bind_lexicon_alignment(m);
  bind_lattice_alignment(m);
  bind_mbr(m);
}
