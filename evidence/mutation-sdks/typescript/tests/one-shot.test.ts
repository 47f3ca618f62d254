import { ONE_SHOT, SERVER_ALONE } from "../vectors/one-shot.js";
import { eachVector } from "./folder.js";

eachVector("one-shot", ONE_SHOT, SERVER_ALONE);
