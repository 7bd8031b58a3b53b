from mindspeed_llm.training.arguments import parse_args
from mindspeed_llm.training.training import pretrain

if __name__ == "__main__":
    pretrain(parse_args())
