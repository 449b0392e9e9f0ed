"""OpenVINO's GRU, both conventions; inference only."""

from fused_rnn.bench import worker


def load():
    import openvino

    import onnx_model

    core = openvino.Core()

    def prepare(case):
        if case.training:
            raise worker.Unsupported("inference only")
        case.require("float32")
        compiled = core.compile_model(
            core.read_model(onnx_model.gru(case)), "CPU",
            {
                "INFERENCE_NUM_THREADS": worker.THREADS,
                "NUM_STREAMS": 1,
                # Its default is bfloat16 where the processor has it.
                "INFERENCE_PRECISION_HINT": "f32",
            },
        )
        request = compiled.create_infer_request()
        for name, array in (
            ("x", worker.time_major(case.x)), ("h0", case.h0[None])
        ):
            request.set_tensor(name, openvino.Tensor(array))

        def infer():
            request.infer()
            return request

        return infer, lambda request: onnx_model.results(
            request.get_tensor("y").data, request.get_tensor("state").data
        )

    return {"OpenVINO": openvino.get_version().split("-")[0]}, prepare


worker.serve(load)
